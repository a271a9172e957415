//! A server on loopback that behaves like GitHub or Gitea for comments and pull requests, and fails on request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

/// The runner's own token.
pub const RUNNER: &str = "ghs_runner0123456789";
/// The same, for a fork.
pub const READER: &str = "ghs_reader0123456789";
/// A user other than the token's.
pub const PERSON: &str = "ghp_person0123456789";
/// An app's.
pub const APP: &str = "ghs_app0123456789";

const REPO: &str = "/repos/octo/repo";
/// What it was called before.
const OLD_NAME: &str = "/repos/octo/old";
/// A repository that says it is on another server.
const AWAY: &str = "/repos/octo/away";

/// What can go wrong with a request.
#[derive(Clone)]
pub enum ServerFault {
    /// Refused, with these headers and words; nothing was done.
    Status(u16, &'static [(&'static str, &'static str)], &'static str),
    /// It was done, but a gateway says that it was not.
    DoneThenStatus(u16),
    /// It was done, but the connection is cut before the answer.
    DoneThenCut,
    /// The connection is cut before anything was done.
    Cut,
    /// There is no answer for a long time.
    Silence,
    /// The connection is cut in the middle of the answer.
    Truncated,
    /// The answer is a list of this many bytes.
    Large(usize),
}

#[derive(Clone, Debug)]
pub struct Comment {
    pub id: u64,
    pub login: String,
    pub kind: &'static str,
    pub body: String,
}

#[derive(Default)]
pub struct State {
    pub comments: Vec<Comment>,
    pub pulls: Vec<Value>,
    /// `METHOD /path`, without the query.
    pub requests: Vec<String>,
    pub user_agents: Vec<String>,
    /// Which pull requests a commit is said to belong to.
    pub of_commit: BTreeMap<String, Vec<u64>>,
    /// The server that `octo/away` is said to be on.
    pub away: String,
    /// Whether lists come whole, whatever page is asked for.
    pub whole: bool,
    url: String,
    faults: Vec<(&'static str, ServerFault)>,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flavour {
    GitHub,
    Gitea,
}

pub struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    token: String,
    body: Value,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Value,
}

impl Server {
    pub fn github() -> Server {
        Server::start("", Flavour::GitHub)
    }

    pub fn enterprise() -> Server {
        Server::start("/api/v3", Flavour::GitHub)
    }

    pub fn gitea() -> Server {
        Server::start("/api/v1", Flavour::Gitea)
    }

    fn start(prefix: &'static str, flavour: Flavour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{prefix}", listener.local_addr().unwrap());
        let away = "http://localhost.example.org".to_owned();
        let state = Arc::new(Mutex::new(State { url: url.clone(), away, next: 1000, ..State::default() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { return };
                thread::spawn(move || serve(stream, prefix, flavour, &shared));
            }
        });
        Server { url, state }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The next request with this method has this fault.
    pub fn fault(&self, method: &'static str, fault: ServerFault) -> &Server {
        self.state().faults.push((method, fault));
        self
    }

    /// Another user comments.
    pub fn comment(&self, login: &str, kind: &'static str, body: &str) -> u64 {
        self.state().add(login, kind, body)
    }

    pub fn bodies(&self) -> Vec<String> {
        self.state().comments.iter().map(|comment| comment.body.clone()).collect()
    }

    /// How many requests there were with this method.
    pub fn count(&self, method: &str) -> usize {
        let begin = format!("{method} ");
        self.state().requests.iter().filter(|request| request.starts_with(&begin)).count()
    }
}

impl State {
    fn add(&mut self, login: &str, kind: &'static str, body: &str) -> u64 {
        self.next += 1;
        let id = self.next;
        self.comments.push(Comment { id, login: login.to_owned(), kind, body: body.to_owned() });
        id
    }
}

fn serve(stream: TcpStream, prefix: &str, flavour: Flavour, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let request = read(&mut reader, prefix, state)?;
        let mut state = state.lock().unwrap();
        state.requests.push(format!("{} {}", request.method, request.path));
        let at = state.faults.iter().position(|(method, _)| *method == request.method);
        let fault = at.map(|at| state.faults.remove(at).1);
        let answer = match fault {
            None => answer(&request, flavour, &mut state),
            Some(ServerFault::Status(status, headers, words)) => {
                let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                Answer { headers: headers.iter().map(own).collect(), ..refusal(status, words) }
            }
            Some(ServerFault::DoneThenStatus(status)) => {
                answer(&request, flavour, &mut state);
                refusal(status, "Bad gateway")
            }
            Some(ServerFault::DoneThenCut) => {
                answer(&request, flavour, &mut state);
                let _ = stream.shutdown(Shutdown::Both);
                return None;
            }
            Some(ServerFault::Truncated) => {
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 1000\r\n\r\n[{");
                let _ = stream.shutdown(Shutdown::Both);
                return None;
            }
            Some(ServerFault::Large(size)) => {
                drop(state);
                stream
                    .write_all(format!("HTTP/1.1 200 X\r\ncontent-length: {size}\r\n\r\n").as_bytes())
                    .ok()?;
                let piece = vec![b' '; 1 << 20];
                for _ in 0..size.div_ceil(piece.len()) {
                    stream.write_all(&piece).ok()?;
                }
                return None;
            }
            Some(ServerFault::Silence) => {
                drop(state);
                thread::sleep(crate::harness::LONG);
                return None;
            }
            Some(ServerFault::Cut) => {
                let _ = stream.shutdown(Shutdown::Both);
                return None;
            }
        };
        drop(state);
        write(&mut stream, flavour, &answer)?;
    }
}

fn read(reader: &mut impl BufRead, prefix: &str, state: &Mutex<State>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut token) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => token = value.trim_start_matches("Bearer ").to_owned(),
            "user-agent" => state.lock().unwrap().user_agents.push(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request {
        method,
        // A request outside of the API finds nothing.
        path: path.strip_prefix(prefix).unwrap_or("/outside").to_owned(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.replace("%3A", ":").replace("%2F", "/")))
            .collect(),
        token,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn write(stream: &mut TcpStream, flavour: Flavour, answer: &Answer) -> Option<()> {
    let body = if answer.status == 204 { String::new() } else { answer.body.to_string() };
    let mut head = format!(
        "HTTP/1.1 {} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        answer.status,
        body.len()
    );
    if flavour == Flavour::GitHub {
        head.push_str("x-github-request-id: 1\r\n");
    }
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()
}

fn refusal(status: u16, words: &str) -> Answer {
    let body = json!({"message": words, "documentation_url": "https://docs.example.org", "status": status.to_string()});
    Answer { status, headers: Vec::new(), body }
}

fn moved(status: u16, to: String) -> Answer {
    Answer { headers: vec![("location".to_owned(), to)], ..refusal(status, "Moved Permanently") }
}

fn done(status: u16, body: Value) -> Answer {
    Answer { status, headers: Vec::new(), body }
}

/// Who a token belongs to, and whether it may write.
fn who(token: &str, flavour: Flavour) -> Option<(&'static str, &'static str, bool)> {
    match (token, flavour) {
        (RUNNER, Flavour::GitHub) => Some(("github-actions[bot]", "Bot", true)),
        (RUNNER, Flavour::Gitea) => Some(("gitea-actions", "", true)),
        (READER, _) => Some(("github-actions[bot]", "Bot", false)),
        (PERSON, _) => Some(("octocat", "User", true)),
        (APP, _) => Some(("our-app[bot]", "Bot", true)),
        _ => None,
    }
}

fn answer(request: &Request, flavour: Flavour, state: &mut State) -> Answer {
    let Some((login, kind, may_write)) = who(&request.token, flavour) else {
        return refusal(401, "Bad credentials");
    };
    if request.path == "/user" {
        return match request.token.as_str() {
            PERSON => done(200, json!({"login": login, "type": kind})),
            _ => refusal(403, "Resource not accessible by integration"),
        };
    }
    if let Some(rest) = request.path.strip_prefix(OLD_NAME) {
        let status = if request.method == "GET" { 301 } else { 307 };
        let query: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        return moved(status, format!("{}{REPO}{rest}?{}", state.url, query.join("&")));
    }
    if let Some(rest) = request.path.strip_prefix(AWAY) {
        return moved(301, format!("{}{REPO}{rest}", state.away));
    }
    let Some(path) = request.path.strip_prefix(REPO) else {
        return refusal(404, "Not Found");
    };
    if request.method != "GET" && !may_write {
        return refusal(403, "Resource not accessible by integration");
    }
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["issues", "7", "comments"]) => {
            let all = state.comments.iter().map(|comment| shown(comment, flavour)).collect();
            page(request, flavour, state.whole, all)
        }
        ("POST", ["issues", "7", "comments"]) => match taken(&request.body) {
            Err(refusal) => refusal,
            Ok(body) => {
                state.add(login, kind, &body);
                done(201, shown(state.comments.last().unwrap(), flavour))
            }
        },
        ("PATCH", ["issues", "comments", id]) => match (taken(&request.body), find(state, id)) {
            (Err(refusal), _) => refusal,
            (_, None) => refusal(404, "Not Found"),
            (Ok(body), Some(at)) => {
                state.comments[at].body = body;
                done(200, shown(&state.comments[at], flavour))
            }
        },
        ("DELETE", ["issues", "comments", id]) => match find(state, id) {
            None => refusal(404, "Not Found"),
            Some(at) => {
                state.comments.remove(at);
                done(204, Value::Null)
            }
        },
        ("GET", ["commits", sha, "pulls"]) => {
            let numbers = state.of_commit.get(*sha).cloned().unwrap_or_default();
            let all = state.pulls.iter();
            let all = all.filter(|pull| numbers.contains(&pull["number"].as_u64().unwrap()));
            page(request, flavour, state.whole, all.cloned().collect())
        }
        ("GET", ["pulls"]) => {
            let is = |name: &str, found: &Value| request.query.get(name).is_none_or(|wanted| found == wanted);
            let matches = |pull: &&Value| {
                // Gitea does not look for branches.
                flavour == Flavour::Gitea
                    || is("head", &pull["head"]["label"]) && is("base", &pull["base"]["ref"])
            };
            let all = state.pulls.iter().filter(|pull| is("state", &pull["state"])).filter(matches);
            page(request, flavour, state.whole, all.cloned().collect())
        }
        ("POST", ["pulls"]) => open(request, state),
        ("PATCH", ["pulls", number]) => {
            let found = state.pulls.iter_mut().find(|pull| pull["number"].as_u64() == number.parse().ok());
            match found {
                None => refusal(404, "Not Found"),
                Some(pull) => {
                    for field in ["title", "body"] {
                        pull[field] = request.body[field].clone();
                    }
                    done(200, pull.clone())
                }
            }
        }
        _ => refusal(404, "Not Found"),
    }
}

fn find(state: &State, id: &str) -> Option<usize> {
    state.comments.iter().position(|comment| comment.id.to_string() == id)
}

fn taken(body: &Value) -> Result<String, Answer> {
    match body["body"].as_str() {
        Some(text) if text.chars().count() <= 65_536 && !text.is_empty() && !text.contains('\0') => {
            Ok(text.to_owned())
        }
        _ => Err(refusal(422, "Validation Failed")),
    }
}

fn shown(comment: &Comment, flavour: Flavour) -> Value {
    let mut user = json!({"login": comment.login});
    if flavour == Flavour::GitHub {
        user["type"] = comment.kind.into();
    }
    let url = format!("https://git.example.org/octo/repo/pull/7#issuecomment-{}", comment.id);
    json!({"id": comment.id, "html_url": url, "body": comment.body, "user": user})
}

pub fn pull(number: u64, head: &str, base: &str, sha: &str) -> Value {
    let (owner, branch) = head.split_once(':').unwrap();
    json!({
        "id": number + 500, "number": number, "state": "open", "title": "old", "body": null,
        "html_url": format!("https://git.example.org/octo/repo/pull/{number}"),
        "head": {"label": head, "ref": branch, "sha": sha, "repo": {"owner": {"login": owner}}},
        "base": {"ref": base},
    })
}

fn open(request: &Request, state: &mut State) -> Answer {
    let text = |name: &str| request.body[name].as_str().unwrap().to_owned();
    let head = if text("head").contains(':') { text("head") } else { format!("octo:{}", text("head")) };
    if state.pulls.iter().any(|pull| pull["head"]["label"] == head && pull["base"]["ref"] == text("base")) {
        return refusal(422, "Validation Failed");
    }
    let mut made = pull(state.pulls.len() as u64 + 20, &head, &text("base"), "abc");
    for field in ["title", "body", "draft"] {
        made[field] = request.body[field].clone();
    }
    state.pulls.push(made.clone());
    done(201, made)
}

/// A page of a list, with the links that GitHub sends. Gitea has smaller pages and another word for their size.
fn page(request: &Request, flavour: Flavour, whole: bool, all: Vec<Value>) -> Answer {
    let number = |name: &str| request.query.get(name).and_then(|value| value.parse::<usize>().ok());
    let size = match flavour {
        _ if whole => return done(200, Value::Array(all)),
        Flavour::GitHub => number("per_page").unwrap_or(30).min(100),
        Flavour::Gitea => number("limit").unwrap_or(30).min(50),
    };
    let page = number("page").unwrap_or(1);
    let shown: Vec<Value> = all.iter().skip((page - 1) * size).take(size).cloned().collect();
    let mut answer = done(200, Value::Array(shown));
    let last = all.len().div_ceil(size).max(1);
    if flavour == Flavour::GitHub && last > 1 {
        let rel = if page < last { "next" } else { "prev" };
        answer.headers.push(("link".to_owned(), format!("<https://example.org/?page=2>; rel=\"{rel}\"")));
    }
    answer
}
