//! What a server said no to, and what to do about it.

use std::fmt;

use crate::error::Error;
use crate::sanitize::one_line;

/// How much of a server's words is shown, in characters.
const LONGEST: usize = 300;

/// A request that came to nothing.
#[derive(Debug)]
pub enum ApiFailure {
    /// The server answered, and the answer is no.
    Refused {
        /// What was tried: `list the comments of octo/repo#1`.
        doing: String,
        /// The status.
        status: u16,
        /// What the server says of it.
        message: String,
    },
    /// There was no answer, or none that says anything, as often as it was tried.
    NoAnswer {
        /// What was tried.
        doing: String,
        /// What happened instead.
        why: String,
    },
    /// Anything else, such as being asked to stop.
    Other(Error),
}

impl ApiFailure {
    /// Whether the server answered with this status.
    pub fn is_status(&self, wanted: u16) -> bool {
        matches!(self, ApiFailure::Refused { status, .. } if *status == wanted)
    }

    /// Whether a runner's own token may only read: a fork's, or one whose workflow does not say otherwise.
    pub fn is_read_only(&self) -> bool {
        matches!(self, ApiFailure::Refused { status: 403, message, .. }
            if message.to_ascii_lowercase().contains("resource not accessible by integration"))
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| one_line(text).chars().take(LONGEST).collect::<String>();
        match self {
            ApiFailure::Refused { doing, status, message } => {
                write!(f, "cannot {doing}: the server said {status}, {}", short(message))
            }
            ApiFailure::NoAnswer { doing, why } => write!(f, "cannot {doing}: {}", short(why)),
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
            ApiFailure::NoAnswer { .. } => Error::failed(text).hint(
                "is GITHUB_API_URL right, and can it be reached from here? the same command may work later",
            ),
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
        401 => "the token is wrong or has expired: DECREE_GITHUB_TOKEN, else GITHUB_TOKEN",
        403 if message.contains("not permitted to create") => {
            "the repository's settings allow it: Actions, General, Workflow permissions"
        }
        403 | 429 if limited => "too many requests with this token; the same command works later",
        403 => "the token may not do this: the job needs `permissions: pull-requests: write`",
        404 => {
            "no such thing, or the token cannot see it: are --repo and --pr right, and has the job `permissions: pull-requests: write`?"
        }
        422 => {
            "the server does not take this content; `decree comment --dry-run` shows what a comment would say"
        }
        500.. => "the server has trouble; the same command may work later",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> ApiFailure {
        ApiFailure::Refused { doing: "comment".to_owned(), status, message: message.to_owned() }
    }

    /// CMT-12.
    #[test]
    fn a_refusal_says_what_to_do() {
        for (status, message, words) in [
            (401, "Bad credentials", "expired"),
            (403, "no", "pull-requests: write"),
            (403, "API rate limit exceeded", "works later"),
            (403, "GitHub Actions is not permitted to create or approve pull requests.", "settings"),
            (404, "Not Found", "--repo"),
            (503, "Unavailable", "later"),
        ] {
            let error = Error::from(refused(status, message));
            assert!(error.hint_text().unwrap().contains(words), "{error}: {:?}", error.hint_text());
            assert_eq!(error.to_string(), format!("cannot comment: the server said {status}, {message}"));
        }
    }

    /// CMT-09.
    #[test]
    fn only_a_runners_token_is_taken_for_one_that_reads() {
        assert!(refused(403, "Resource not accessible by integration").is_read_only());
        assert!(!refused(403, "Resource not accessible by personal access token").is_read_only());
        assert!(!refused(404, "Resource not accessible by integration").is_read_only());
    }

    #[test]
    fn a_servers_words_stay_on_one_line() {
        let text = refused(500, &format!("a\n::error::b\u{1b}[31m{}", "x".repeat(5000))).to_string();
        assert!(!text.contains(['\n', '\u{1b}']) && text.len() < 400, "{text}");
    }
}
