//! Requests that failed, with a hint for each kind of failure.

use std::fmt;

use crate::error::Error;
use crate::sanitize::one_line;

/// How many characters of the server's message are shown.
const LONGEST: usize = 300;

#[derive(Debug)]
pub enum ApiFailure {
    Refused {
        /// The operation in words, such as `list the comments of octo/repo#1`.
        operation: String,
        status: u16,
        message: String,
    },
    /// No attempt got a usable response.
    NoResponse { operation: String, why: String },
    /// Anything else, such as an interrupt.
    Other(Error),
}

impl ApiFailure {
    pub fn is_status(&self, expected: &[u16]) -> bool {
        matches!(self, ApiFailure::Refused { status, .. } if expected.contains(status))
    }

    /// Whether the runner's token is read-only: the job belongs to a fork, or lacks the permission.
    pub fn is_read_only(&self) -> bool {
        matches!(self, ApiFailure::Refused { status: 403, message, .. }
            if message.to_ascii_lowercase().contains("resource not accessible by integration"))
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| one_line(text).chars().take(LONGEST).collect::<String>();
        match self {
            ApiFailure::Refused { operation, status, message } => {
                write!(f, "cannot {operation}: the server answered {status}: {}", short(message))
            }
            ApiFailure::NoResponse { operation, why } => write!(f, "cannot {operation}: {}", short(why)),
            ApiFailure::Other(error) => error.fmt(f),
        }
    }
}

impl From<Error> for ApiFailure {
    fn from(error: Error) -> Self {
        ApiFailure::Other(error)
    }
}

impl From<ApiFailure> for Error {
    fn from(failure: ApiFailure) -> Self {
        let text = failure.to_string();
        match failure {
            ApiFailure::Other(error) => error,
            ApiFailure::NoResponse { why, .. } if why.contains("certificate: UnknownIssuer") => Error::failed(text)
                .hint("if the server's CA is not one of the system's, name the file with its certificate in SSL_CERT_FILE"),
            ApiFailure::NoResponse { .. } => Error::failed(text)
                .hint("check GITHUB_API_URL and the network; the same command may work later"),
            ApiFailure::Refused { status, message, .. } => match hint(status, &message) {
                Some(hint) => Error::failed(text).hint(hint),
                None => Error::failed(text),
            },
        }
    }
}

fn hint(status: u16, message: &str) -> Option<&'static str> {
    let limited = message.to_ascii_lowercase().contains("rate limit");
    Some(match status {
        401 => "the token is invalid or has expired; it is read from DECREE_GITHUB_TOKEN, else GITHUB_TOKEN",
        403 if message.contains("not permitted to create") => {
            "allow it in the repository's settings: Actions, General, Workflow permissions"
        }
        403 | 429 if limited => "too many requests with this token; the same command works later",
        403 => "the token lacks a permission: the job needs `permissions: pull-requests: write`",
        404 => {
            "it does not exist, or the token cannot see it: check --repo and --pr, and that the job has `permissions: pull-requests: write`"
        }
        422 => "the server rejected the content; `decree comment --dry-run` prints what would be posted",
        500.. => "the server failed; the same command may work later",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> ApiFailure {
        ApiFailure::Refused { operation: "comment".to_owned(), status, message: message.to_owned() }
    }

    #[test]
    fn a_refusal_has_a_hint() {
        for (status, message, hint) in [
            (401, "Bad credentials", "expired"),
            (403, "no", "pull-requests: write"),
            (403, "API rate limit exceeded", "works later"),
            (403, "GitHub Actions is not permitted to create or approve pull requests.", "settings"),
            (404, "Not Found", "--repo"),
            (503, "Unavailable", "later"),
        ] {
            let error = Error::from(refused(status, message));
            assert!(error.hint_text().unwrap().contains(hint), "{error}: {:?}", error.hint_text());
            assert_eq!(error.to_string(), format!("cannot comment: the server answered {status}: {message}"));
        }
    }

    #[test]
    fn only_a_runners_token_counts_as_read_only() {
        assert!(refused(403, "Resource not accessible by integration").is_read_only());
        assert!(!refused(403, "Resource not accessible by personal access token").is_read_only());
        assert!(!refused(404, "Resource not accessible by integration").is_read_only());
    }

    #[test]
    fn a_servers_message_stays_on_one_line() {
        let text = refused(500, &format!("a\n::error::b\u{1b}[31m{}", "x".repeat(5000))).to_string();
        assert!(!text.contains(['\n', '\u{1b}']) && text.len() < 400, "{text}");
    }
}
