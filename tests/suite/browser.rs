//! A real browser, driven through its debugging pipe: two FIFOs, JSON between zero bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{skip, temp_dir};

/// Chromium with one page open. Ends with this.
pub struct Browser {
    child: Child,
    commands: File,
    answers: BufReader<File>,
    session: Option<String>,
    sent: u64,
    _home: tempfile::TempDir,
}

/// Where Chromium is; `None`, and a recorded skip, if it is nowhere.
#[track_caller]
pub fn found() -> Option<PathBuf> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&places)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        skip::skip(skip::Lack::Tool("chromium"));
    }
    found
}

impl Browser {
    /// Opens a file; `None`, and a recorded skip, if there is no browser.
    #[track_caller]
    pub fn open(page: &Path) -> Option<Browser> {
        let browser = found()?;
        let home = temp_dir();
        let pipe = |name: &str| {
            let path = home.path().join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        // Both ways open at once for reading and writing, so that no open waits for the other side.
        let both = |path: &Path| OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (commands, answers) = (both(&to), both(&from));
        let child = Command::new("bash")
            .args(["-c", "exec \"$@\" 3<\"$0\" 4>\"$FROM\""])
            .arg(&to)
            .arg(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--window-size=1200,900", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.path().join("data").display()))
            .env("FROM", &from)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(answers);
        let mut browser = Browser { child, commands, answers, session: None, sent: 0, _home: home };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}));
        browser.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        browser
            .until("document.readyState === 'complete' && document.querySelectorAll('#specs li').length > 0");
        Some(browser)
    }

    /// The value of an expression on the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        crate::harness::wait_until(expression, || self.value(expression) == true);
    }

    /// Clicks where an element is, as a person does.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width, 20) / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Types into what has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            let answer: Value = serde_json::from_slice(&answer[..answer.len() - 1]).unwrap();
            if answer["id"] == self.sent {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
