//! Sends requests to one server, with retries, and creates nothing twice.
//!
//! Idempotent requests (GET, PATCH to a given text, DELETE) are retried when the server fails, is unreachable, or asks to
//! wait. A POST is not: after a lost response the client searches for the object before it creates another.

use std::collections::BTreeSet;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Response};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::environment::RunnerEnvironment;
use super::failure::ApiFailure;
use super::transport::Transport;
use crate::error::{Error, Result};
use crate::interrupt;

/// The time limit of one request, including its redirects.
const REQUEST: Duration = Duration::from_secs(30);
/// How often a request or a wait checks for an interrupt.
const TICK: Duration = Duration::from_millis(50);
/// The number of attempts, including the first.
const ATTEMPTS: u32 = 5;
/// The limit of all waits of one request together.
const TOTAL_WAIT: Duration = Duration::from_secs(120);
/// The first wait; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The wait after a secondary rate limit for which GitHub names no time.
const SECONDARY: Duration = Duration::from_secs(60);
/// Items per page. Gitea returns at most 50 and calls the parameter `limit`.
const PAGE: usize = 100;
/// A limit against a server whose pages never end.
const PAGES: usize = 1000;
/// How many redirects of a renamed repository are followed.
const MOVES: usize = 3;

const RETRY_AFTER: &str = "retry-after";

pub struct GithubClient {
    transport: Transport,
    runtime: Runtime,
    backoff: Option<Duration>,
}

struct ApiRequest<'r> {
    /// What the request is for, in words for error messages.
    operation: &'r str,
    method: Method,
    path: &'r str,
    body: Option<&'r Value>,
}

struct ApiResponse {
    status: u16,
    headers: HeaderMap,
    /// The body; null if it is not JSON.
    json: Value,
}

/// How a request ended, as far as the response shows it.
enum Disposition {
    Done,
    No,
    /// Not carried out; a retry may succeed.
    NotNow(Option<Duration>),
    /// It may have been carried out.
    Unclear(Option<Duration>),
}

impl GithubClient {
    pub fn from_environment(environment: &RunnerEnvironment) -> Result<Self> {
        let authorization = environment.authorization()?;
        let base = base(&environment.api_url)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::failed("cannot set up the network runtime").caused_by(error))?;
        let transport = Transport::new(base, authorization)?;
        Ok(GithubClient { transport, runtime, backoff: environment.backoff })
    }

    pub fn get(&self, operation: &str, path: &str) -> Result<Value, ApiFailure> {
        self.with_retries(&ApiRequest { operation, method: Method::GET, path, body: None })
            .map(|response| response.json)
    }

    pub fn patch(&self, operation: &str, path: &str, body: &Value) -> Result<Value, ApiFailure> {
        let request = ApiRequest { operation, method: Method::PATCH, path, body: Some(body) };
        self.with_retries(&request).map(|response| response.json)
    }

    /// Deletes. An object that is already gone is a refusal with status 404.
    pub fn delete(&self, operation: &str, path: &str) -> Result<(), ApiFailure> {
        self.with_retries(&ApiRequest { operation, method: Method::DELETE, path, body: None }).map(|_| ())
    }

    /// Creates an object exactly once. When a response is lost, `find` searches for the object before the next attempt.
    pub fn create(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        mut find: impl FnMut() -> Result<Option<Value>, ApiFailure>,
    ) -> Result<Value, ApiFailure> {
        let request = ApiRequest { operation, method: Method::POST, path, body: Some(body) };
        let mut retry = RetrySchedule::new(self.backoff);
        loop {
            let (failure, delay, unclear) = match self.exchange(&request) {
                Err(failure @ ApiFailure::NoResponse { .. }) => (failure, None, true),
                Err(failure) => return Err(failure),
                Ok(response) => match response.disposition() {
                    Disposition::Done if response.json.is_object() => return Ok(response.json),
                    Disposition::Done => (response.refused(operation), None, true),
                    Disposition::No => return Err(response.refused(operation)),
                    Disposition::NotNow(delay) => (response.refused(operation), delay, false),
                    Disposition::Unclear(delay) => (response.refused(operation), delay, true),
                },
            };
            let again = retry.wait(delay)?;
            if (again || unclear)
                && let Some(found) = find()?
            {
                return Ok(found);
            }
            if !again {
                return Err(failure);
            }
        }
    }

    /// Returns all items of a paginated list, each once.
    pub fn list(&self, operation: &str, path: &str) -> Result<Vec<Value>, ApiFailure> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for page in 1..=PAGES {
            let path = format!("{path}{separator}per_page={PAGE}&limit={PAGE}&page={page}");
            let request = ApiRequest { operation, method: Method::GET, path: &path, body: None };
            let response = self.with_retries(&request)?;
            let more = match response.header("link") {
                Some(link) => link.contains("rel=\"next\""),
                // GitHub always links the next page; other servers may not.
                None => !response.headers.contains_key("x-github-request-id"),
            };
            let Value::Array(items) = response.json else {
                return Err(self.no_response(operation, "the response is not a list".to_owned()));
            };
            let before = all.len();
            all.extend(items.into_iter().filter(|item| seen.insert(item["id"].to_string())));
            // Some servers send the whole list for every page.
            if !more || all.len() == before {
                return Ok(all);
            }
        }
        Ok(all)
    }

    fn with_retries(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, ApiFailure> {
        let mut retry = RetrySchedule::new(self.backoff);
        loop {
            let (failure, delay) = match self.exchange(request) {
                Err(failure @ ApiFailure::NoResponse { .. }) => (failure, None),
                Err(failure) => return Err(failure),
                Ok(response) => match response.disposition() {
                    Disposition::Done => return Ok(response),
                    Disposition::No => return Err(response.refused(request.operation)),
                    Disposition::NotNow(delay) | Disposition::Unclear(delay) => {
                        (response.refused(request.operation), delay)
                    }
                },
            };
            if !retry.wait(delay)? {
                return Err(failure);
            }
        }
    }

    /// Sends a request once, and follows the redirects of a renamed repository.
    fn exchange(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, ApiFailure> {
        let mut path = format!("/{}", request.path.trim_start_matches('/'));
        for _ in 0..MOVES {
            let response = self.runtime.block_on(self.response(request, &path))?;
            match self.moved(&response) {
                Some(to) => path = to,
                None => return Ok(response),
            }
        }
        Err(self.no_response(request.operation, format!("more than {MOVES} redirects")))
    }

    /// Waits for a response until it times out or an interrupt arrives.
    async fn response(&self, request: &ApiRequest<'_>, path: &str) -> Result<ApiResponse, ApiFailure> {
        let mut response = pin!(timeout(REQUEST, self.transport.send(&request.method, path, request.body)));
        let why = loop {
            match timeout(TICK, &mut response).await {
                Ok(Ok(Ok(response))) => return Ok(ApiResponse::new(response)),
                Ok(Ok(Err(error))) => break root_cause(&*error),
                Ok(Err(_)) => break format!("no response within {} seconds", REQUEST.as_secs()),
                Err(_) => interrupt::check()?,
            }
        };
        Err(self.no_response(request.operation, why))
    }

    /// The new path, if the response redirects within this server: the repository was renamed.
    fn moved(&self, response: &ApiResponse) -> Option<String> {
        let moved = matches!(response.status, 301 | 302 | 307 | 308);
        let location = response.header("location").filter(|_| moved)?;
        let path = location.strip_prefix(&*self.transport.base).unwrap_or(location);
        (path.starts_with('/') && !path.starts_with("//")).then(|| path.to_owned())
    }

    fn no_response(&self, operation: &str, why: String) -> ApiFailure {
        ApiFailure::NoResponse {
            operation: operation.to_owned(),
            why: format!("{}: {why}", self.transport.base),
        }
    }
}

impl ApiResponse {
    fn new(http: Response<String>) -> Self {
        let (head, text) = http.into_parts();
        let json = serde_json::from_str(&text).unwrap_or_default();
        ApiResponse { status: head.status.as_u16(), headers: head.headers, json }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.trim().parse().ok()
    }

    fn message(&self) -> String {
        let mut text = self.json["message"].as_str().unwrap_or("no reason given").to_owned();
        let details = self.json["errors"].as_array().into_iter().flatten();
        for detail in details.filter_map(|error| error["message"].as_str().or(error.as_str())) {
            text.push_str("; ");
            text.push_str(detail);
        }
        text
    }

    fn refused(&self, operation: &str) -> ApiFailure {
        ApiFailure::Refused { operation: operation.to_owned(), status: self.status, message: self.message() }
    }

    fn disposition(&self) -> Disposition {
        let says_limit = || self.message().to_ascii_lowercase().contains("rate limit");
        match self.status {
            200..=299 => Disposition::Done,
            429 => Disposition::NotNow(self.delay()),
            403 if self.number(RETRY_AFTER).is_some() || self.is_spent() || says_limit() => {
                Disposition::NotNow(self.delay().or(Some(SECONDARY)))
            }
            408 | 500..=599 => Disposition::Unclear(self.delay()),
            _ => Disposition::No,
        }
    }

    /// Whether the token has no requests left.
    fn is_spent(&self) -> bool {
        self.number("x-ratelimit-remaining") == Some(0)
    }

    /// The wait that the server asks for.
    fn delay(&self) -> Option<Duration> {
        if let Some(seconds) = self.number(RETRY_AFTER) {
            return Some(Duration::from_secs(seconds));
        }
        let reset = self.number("x-ratelimit-reset").filter(|_| self.is_spent())?;
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
        Some(Duration::from_secs(reset.saturating_sub(now) + 1))
    }
}

/// Counts the attempts of one request.
struct RetrySchedule {
    first: Duration,
    until: Instant,
    attempts: u32,
}

impl RetrySchedule {
    fn new(first: Option<Duration>) -> Self {
        RetrySchedule { first: first.unwrap_or(FIRST_WAIT), until: Instant::now() + TOTAL_WAIT, attempts: 0 }
    }

    /// Waits until the next attempt, for `asked` if the server named a time. False if no attempt is left.
    fn wait(&mut self, asked: Option<Duration>) -> Result<bool> {
        self.attempts += 1;
        let delay = asked.unwrap_or_else(|| self.first * 2u32.saturating_pow(self.attempts - 1));
        let now = Instant::now();
        if self.attempts >= ATTEMPTS || now + delay > self.until {
            return Ok(false);
        }
        let end = now + delay;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            interrupt::check()?;
            thread::sleep(left.min(TICK));
        }
        Ok(true)
    }
}

/// The address without a trailing slash, if it is a plain http or https URL.
fn base(api_url: &str) -> Result<String> {
    let base = api_url.trim().trim_end_matches('/');
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    let is_plain = |rest: &str| {
        let foreign = |byte: u8| !byte.is_ascii_graphic() || b"@?#\"<>\\".contains(&byte);
        !rest.is_empty() && !rest.starts_with('/') && !rest.bytes().any(foreign)
    };
    match rest {
        Some(rest) if is_plain(rest) => Ok(base.to_owned()),
        // The error does not quote the value: it may hold a password.
        _ => Err(Error::project("GITHUB_API_URL is not the URL of an API")
            .hint("for example https://api.github.com or https://git.example.org/api/v3")),
    }
}

/// The innermost cause: the messages of the layers above it only repeat that a request failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &'static str)], text: &str) -> ApiResponse {
        let mut http = Response::builder().status(status);
        for (name, value) in headers {
            http = http.header(*name, *value);
        }
        ApiResponse::new(http.body(text.to_owned()).unwrap())
    }

    #[test]
    fn only_a_plain_url_is_accepted() {
        assert_eq!(base("https://api.github.com/").unwrap(), "https://api.github.com");
        assert_eq!(base("http://localhost:3000/api/v1").unwrap(), "http://localhost:3000/api/v1");
        for bad in ["", "api.github.com", "ftp://x", "https://", "https:///x", "https://u:p@x", "https://x y"]
        {
            let error = base(bad).unwrap_err();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }

    #[test]
    fn a_403_is_a_rate_limit_only_if_the_response_says_so() {
        let limit = r#"{"message": "You have exceeded a secondary rate limit."}"#;
        assert!(matches!(response(403, &[], limit).disposition(), Disposition::NotNow(Some(SECONDARY))));
        assert!(matches!(response(403, &[], r#"{"message": "no"}"#).disposition(), Disposition::No));
        let spent = response(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "0")], "{}");
        assert!(matches!(spent.disposition(), Disposition::NotNow(Some(delay)) if delay.as_secs() == 1));
        let asked = response(429, &[("retry-after", "7")], "");
        assert!(matches!(asked.disposition(), Disposition::NotNow(Some(delay)) if delay.as_secs() == 7));
        assert!(matches!(response(502, &[], "<html>").disposition(), Disposition::Unclear(None)));
    }

    #[test]
    fn a_refusal_carries_the_servers_message() {
        let text = r#"{"message": "Validation Failed", "errors": [{"message": "too long"}, "x"]}"#;
        assert_eq!(response(422, &[], text).message(), "Validation Failed; too long; x");
        assert_eq!(response(502, &[], "<html>").message(), "no reason given");
    }

    #[test]
    fn it_gives_up_after_five_attempts_or_two_minutes() {
        let mut retry = RetrySchedule::new(Some(Duration::ZERO));
        let waits = (0..9).filter(|_| retry.wait(None).unwrap()).count();
        assert_eq!(waits, 4);
        let mut retry = RetrySchedule::new(None);
        assert!(!retry.wait(Some(Duration::from_secs(3600))).unwrap(), "that would be too long");
    }
}
