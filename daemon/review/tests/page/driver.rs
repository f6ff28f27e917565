//! A browser, spoken to by the WebDriver protocol (W3C WebDriver): what these tests need of it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The key of an element in WebDriver's JSON (section 12.2 of it).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser of the test's own, with an empty profile.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// Where Debian has them, or what the environment says.
fn program(name: &str, variable: &str) -> Option<PathBuf> {
    let said = std::env::var_os(variable).map(PathBuf::from);
    said.or_else(|| Some(Path::new("/usr/bin").join(name)))
        .filter(|it| it.is_file())
}

impl Browser {
    /// Starts one; none where Chromium or its driver is missing.
    pub(crate) fn start() -> Option<Self> {
        let driver = program("chromedriver", "CUSTODY_CHROMEDRIVER")?;
        let chromium = program("chromium", "CUSTODY_CHROMIUM")?;
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let profile = tempfile::tempdir().unwrap();
        let driver = Command::new(driver)
            .arg(format!("--port={port}"))
            .env("HOME", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        browser.wait_for_driver();
        let folder = browser._profile.path().join("profile");
        let asked = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {
                "binary": chromium,
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    "--disable-dev-shm-usage", "--window-size=1100,1500",
                    format!("--user-data-dir={}", folder.display()),
                ],
            },
        }}});
        let made = browser.call("POST", "/session", &asked);
        browser.session = made["sessionId"].as_str().unwrap().into();
        Some(browser)
    }

    fn wait_for_driver(&self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "no chromedriver");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn go(&self, url: &str) {
        self.of_session("POST", "/url", &json!({ "url": url }));
    }

    pub(crate) fn url(&self) -> String {
        self.of_session("GET", "/url", &Value::Null)
            .as_str()
            .unwrap()
            .into()
    }

    /// Waits until the page has this title: a click may return before its form is answered.
    pub(crate) fn has_title(&self, title: &str) {
        let begun = Instant::now();
        while self.title() != title {
            let (is, url) = (self.title(), self.url());
            assert!(begun.elapsed() < PATIENCE, "`{is}` at {url}, not `{title}`");
            thread::sleep(Duration::from_millis(30));
        }
    }

    pub(crate) fn title(&self) -> String {
        self.of_session("GET", "/title", &Value::Null)
            .as_str()
            .unwrap()
            .into()
    }

    /// How many elements the selector finds.
    pub(crate) fn count(&self, css: &str) -> usize {
        let found = json!({ "using": "css selector", "value": css });
        self.of_session("POST", "/elements", &found)
            .as_array()
            .unwrap()
            .len()
    }

    pub(crate) fn click(&self, css: &str) {
        let element = self.find(css);
        self.of_session("POST", &format!("/element/{element}/click"), &json!({}));
    }

    pub(crate) fn write(&self, css: &str, text: &str) {
        let element = self.find(css);
        self.of_session(
            "POST",
            &format!("/element/{element}/value"),
            &json!({ "text": text }),
        );
    }

    /// The text as a reader sees it.
    pub(crate) fn text(&self, css: &str) -> String {
        let element = self.find(css);
        let text = self.of_session("GET", &format!("/element/{element}/text"), &Value::Null);
        text.as_str().unwrap().into()
    }

    /// The window as a picture, into `path`.
    pub(crate) fn picture(&self, path: &Path) {
        let base64 = self.of_session("GET", "/screenshot", &Value::Null);
        let status = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(path).unwrap())
            .spawn()
            .and_then(|mut child| {
                child
                    .stdin
                    .take()
                    .unwrap()
                    .write_all(base64.as_str().unwrap().as_bytes())?;
                child.wait()
            });
        assert!(status.unwrap().success());
    }

    pub(crate) fn size(&self, width: u32, height: u32) {
        let rect = json!({ "width": width, "height": height });
        self.of_session("POST", "/window/rect", &rect);
    }

    fn find(&self, css: &str) -> String {
        let asked = json!({ "using": "css selector", "value": css });
        let found = self.of_session("POST", "/element", &asked);
        found[ELEMENT]
            .as_str()
            .unwrap_or_else(|| panic!("{css}: {found}"))
            .into()
    }

    fn of_session(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (port, len) = (self.port, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             Content-Length: {len}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let body = body_of(stream);
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].take();
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }
}

/// The body, as long as the head says: the driver keeps the connection open.
fn body_of(stream: TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let mut len = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if let Some(said) = line.strip_prefix("content-length:") {
            len = said.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    body
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.of_session("DELETE", "", &Value::Null);
        }
        let _gone = self.driver.kill();
        let _gone = self.driver.wait();
    }
}
