//! Asks a server, with_retries, and creates nothing twice.
//!
//! What can be repeated without harm (reading, changing to a given text, deleting) is repeated when the server has
//! trouble, is not there, or asks to wait. What creates is not: when it is unclear whether something was created, it is
//! looked for first. That is why octocrab's own retries, which repeat everything, are not compiled in.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use octocrab::Octocrab;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::environment::RunnerEnvironment;
use super::failure::ApiFailure;
use super::names::ApiToken;
use super::retry::RetrySchedule;
use super::transport;
use crate::error::{Error, Result};
use crate::interrupt;

/// How long one request may take, all in all.
const REQUEST: Duration = Duration::from_secs(30);
/// How often to look whether somebody asks us to stop.
const TICK: Duration = Duration::from_millis(50);
/// How long to wait if GitHub says that it was too much at once, and not for how long.
const SECONDARY: Duration = Duration::from_secs(60);
/// How many things a page has; Gitea has at most 50, and its own word for it.
const PAGE: usize = 100;
/// More pages than anything has.
const PAGES: usize = 1000;
/// How often a moved repository is followed.
const MOVES: usize = 3;

/// A connection to one server, with one token.
pub struct GithubClient {
    octocrab: Octocrab,
    runtime: Runtime,
    base: String,
    backoff: Option<Duration>,
}

/// What to do to something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

/// What a server said.
struct Answer {
    status: u16,
    text: String,
    link: Option<String>,
    location: Option<String>,
    retry_after: Option<u64>,
    remaining: Option<u64>,
    reset: Option<u64>,
    is_github: bool,
}

/// What to make of it.
enum Disposition {
    Done,
    No,
    /// Not done, but it may be later.
    NotNow(Option<Duration>),
    /// Perhaps done.
    Unclear(Option<Duration>),
}

impl GithubClient {
    /// From what a runner says: its API, its token.
    pub fn from_environment(environment: &RunnerEnvironment) -> Result<Self> {
        let mut client = GithubClient::new(&environment.api_url, &environment.token()?)?;
        client.backoff = environment.backoff();
        Ok(client)
    }

    /// For the API at this address.
    pub fn new(api_url: &str, token: &ApiToken) -> Result<Self> {
        let base = base(api_url)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::failed("cannot prepare for the network").caused_by(error))?;
        let octocrab = {
            let _entered = runtime.enter();
            transport::connect(&base, token)?
        };
        Ok(GithubClient { octocrab, runtime, base, backoff: None })
    }

    /// Reads.
    pub fn get(&self, doing: &str, path: &str) -> Result<Value, ApiFailure> {
        self.with_retries(doing, Method::Get, path, None).map(|answer| answer.json())
    }

    /// Changes something to what it should be.
    pub fn patch(&self, doing: &str, path: &str, body: &Value) -> Result<Value, ApiFailure> {
        self.with_retries(doing, Method::Patch, path, Some(body)).map(|answer| answer.json())
    }

    /// Deletes. What is gone already is a refusal, with status 404.
    pub fn delete(&self, doing: &str, path: &str) -> Result<(), ApiFailure> {
        self.with_retries(doing, Method::Delete, path, None).map(|_| ())
    }

    /// Creates something, once. When it is unclear whether that came to pass, `find` looks for it before anything else.
    pub fn create(
        &self,
        doing: &str,
        path: &str,
        body: &Value,
        mut find: impl FnMut() -> Result<Option<Value>, ApiFailure>,
    ) -> Result<Value, ApiFailure> {
        let mut retry = RetrySchedule::new(self.backoff);
        loop {
            let (failure, delay, unclear) = match self.exchange(Method::Post, path, Some(body))? {
                Err(why) => (self.no_answer(doing, why), None, true),
                Ok(answer) => match answer.disposition() {
                    Disposition::Done if answer.json().is_object() => return Ok(answer.json()),
                    Disposition::Done => (answer.refused(doing), None, true),
                    Disposition::No => return Err(answer.refused(doing)),
                    Disposition::NotNow(delay) => (answer.refused(doing), delay, false),
                    Disposition::Unclear(delay) => (answer.refused(doing), delay, true),
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

    /// Everything in a list that comes in pages, each once.
    pub fn list(&self, doing: &str, path: &str) -> Result<Vec<Value>, ApiFailure> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for page in 1..=PAGES {
            let path = format!("{path}{separator}per_page={PAGE}&limit={PAGE}&page={page}");
            let answer = self.with_retries(doing, Method::Get, &path, None)?;
            let Value::Array(items) = answer.json() else {
                return Err(self.no_answer(doing, "the answer is not a list".to_owned()));
            };
            let before = all.len();
            all.extend(items.into_iter().filter(|item| seen.insert(item["id"].to_string())));
            let more = match &answer.link {
                Some(link) => link.contains("rel=\"next\""),
                // GitHub says so if there is more; others may not.
                None => !answer.is_github,
            };
            // Some send everything, whatever page is asked for.
            if !more || all.len() == before {
                return Ok(all);
            }
        }
        Ok(all)
    }

    fn with_retries(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ApiFailure> {
        let mut retry = RetrySchedule::new(self.backoff);
        loop {
            let (failure, delay) = match self.exchange(method, path, body)? {
                Err(why) => (self.no_answer(doing, why), None),
                Ok(answer) => match answer.disposition() {
                    Disposition::Done => return Ok(answer),
                    Disposition::No => return Err(answer.refused(doing)),
                    Disposition::NotNow(delay) | Disposition::Unclear(delay) => {
                        (answer.refused(doing), delay)
                    }
                },
            };
            if !retry.wait(delay)? {
                return Err(failure);
            }
        }
    }

    /// One request and its answer, or why there is none.
    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<std::result::Result<Answer, String>> {
        let mut target = format!("/{}", path.trim_start_matches('/'));
        for _ in 0..MOVES {
            let answer = self.wait_for(self.request(method, &target, body))?;
            let moved = answer.as_ref().ok().and_then(|answer| self.moved(answer));
            match moved {
                Some(to) => target = to,
                None => return Ok(answer),
            }
        }
        Ok(Err("it is moved again and again".to_owned()))
    }

    /// Waits for an answer, but not if somebody asks us to stop.
    fn wait_for<F: Future<Output = octocrab::Result<Answer>>>(
        &self,
        request: F,
    ) -> Result<std::result::Result<Answer, String>> {
        self.runtime.block_on(async {
            let mut request = pin!(timeout(REQUEST, request));
            loop {
                match timeout(TICK, &mut request).await {
                    Ok(Ok(answer)) => return Ok(answer.map_err(|error| root_cause(&error))),
                    Ok(Err(_)) => return Ok(Err(format!("no answer within {} seconds", REQUEST.as_secs()))),
                    Err(_) => interrupt::check()?,
                }
            }
        })
    }

    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> octocrab::Result<Answer> {
        let response = match method {
            Method::Get => self.octocrab._get(path).await?,
            Method::Post => self.octocrab._post(path, body).await?,
            Method::Patch => self.octocrab._patch(path, body).await?,
            Method::Delete => self.octocrab._delete(path, None::<&()>).await?,
        };
        let text = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let number = |name: &str| text(name).and_then(|value| value.trim().parse().ok());
        let mut answer = Answer {
            status: response.status().as_u16(),
            text: String::new(),
            link: text("link"),
            location: text("location"),
            retry_after: number("retry-after"),
            remaining: number("x-ratelimit-remaining"),
            reset: number("x-ratelimit-reset"),
            is_github: response.headers().contains_key("x-github-request-id"),
        };
        answer.text = self.octocrab.body_to_string(response).await?;
        Ok(answer)
    }

    /// Where it is now, if the answer says that it moved within this server: a repository that has a new name.
    fn moved(&self, answer: &Answer) -> Option<String> {
        let moved = matches!(answer.status, 301 | 302 | 307 | 308);
        let location = answer.location.as_deref().filter(|_| moved)?;
        let path = location.strip_prefix(self.base.as_str()).unwrap_or(location);
        (path.starts_with('/') && !path.starts_with("//")).then(|| path.to_owned())
    }

    fn no_answer(&self, doing: &str, why: String) -> ApiFailure {
        ApiFailure::NoAnswer { doing: doing.to_owned(), why: format!("{}: {why}", self.base) }
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    fn message(&self) -> String {
        let json = self.json();
        let mut text = match json["message"].as_str() {
            Some(message) => message.to_owned(),
            None => "with no word of why".to_owned(),
        };
        let details = json["errors"].as_array().into_iter().flatten();
        for detail in details.filter_map(|error| error["message"].as_str().or(error.as_str())) {
            text.push_str("; ");
            text.push_str(detail);
        }
        text
    }

    fn refused(&self, doing: &str) -> ApiFailure {
        ApiFailure::Refused { doing: doing.to_owned(), status: self.status, message: self.message() }
    }

    fn disposition(&self) -> Disposition {
        let says_limit = || self.message().to_ascii_lowercase().contains("rate limit");
        match self.status {
            200..=299 => Disposition::Done,
            429 => Disposition::NotNow(self.delay()),
            403 if self.retry_after.is_some() || self.remaining == Some(0) || says_limit() => {
                Disposition::NotNow(self.delay().or(Some(SECONDARY)))
            }
            408 | 500..=599 => Disposition::Unclear(self.delay()),
            _ => Disposition::No,
        }
    }

    /// How long the server asks to wait.
    fn delay(&self) -> Option<Duration> {
        if let Some(seconds) = self.retry_after {
            return Some(Duration::from_secs(seconds));
        }
        let reset = self.reset.filter(|_| self.remaining == Some(0))?;
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
        Some(Duration::from_secs(reset.saturating_sub(now) + 1))
    }
}

/// An address without its last slash, if it is one that can be asked.
fn base(api_url: &str) -> Result<String> {
    let base = api_url.trim().trim_end_matches('/');
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    let is_plain = |rest: &str| {
        let foreign = |byte: u8| !byte.is_ascii_graphic() || b"@?#\"<>\\".contains(&byte);
        !rest.is_empty() && !rest.starts_with('/') && !rest.bytes().any(foreign)
    };
    match rest {
        Some(rest) if is_plain(rest) => Ok(base.to_owned()),
        // It may hold a password.
        _ => Err(Error::project("GITHUB_API_URL is not the address of an API")
            .hint("it is something like https://api.github.com or https://git.example.org/api/v3")),
    }
}

/// The cause behind all others: what the layers in between say of it helps nobody.
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

    fn answer(status: u16, text: &str) -> Answer {
        Answer {
            status,
            text: text.to_owned(),
            link: None,
            location: None,
            retry_after: None,
            remaining: None,
            reset: None,
            is_github: true,
        }
    }

    /// CMT-13.
    #[test]
    fn only_an_address_is_asked() {
        assert_eq!(base("https://api.github.com/").unwrap(), "https://api.github.com");
        assert_eq!(base("http://localhost:3000/api/v1").unwrap(), "http://localhost:3000/api/v1");
        for bad in ["", "api.github.com", "ftp://x", "https://", "https:///x", "https://u:p@x", "https://x y"]
        {
            let error = base(bad).unwrap_err();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }

    /// CMT-10.
    #[test]
    fn a_403_is_a_limit_only_if_it_says_so() {
        let limit = r#"{"message": "You have exceeded a secondary rate limit."}"#;
        assert!(matches!(answer(403, limit).disposition(), Disposition::NotNow(Some(SECONDARY))));
        assert!(matches!(answer(403, r#"{"message": "no"}"#).disposition(), Disposition::No));
        let spent = Answer { remaining: Some(0), reset: Some(0), ..answer(403, "{}") };
        assert!(matches!(spent.disposition(), Disposition::NotNow(Some(delay)) if delay.as_secs() == 1));
        let asked = Answer { retry_after: Some(7), ..answer(429, "") };
        assert!(matches!(asked.disposition(), Disposition::NotNow(Some(delay)) if delay.as_secs() == 7));
        assert!(matches!(answer(502, "<html>").disposition(), Disposition::Unclear(None)));
    }

    #[test]
    fn a_refusal_has_the_servers_words() {
        let text = r#"{"message": "Validation Failed", "errors": [{"message": "too long"}, "x"]}"#;
        assert_eq!(answer(422, text).message(), "Validation Failed; too long; x");
        assert_eq!(answer(502, "<html>").message(), "with no word of why");
    }
}
