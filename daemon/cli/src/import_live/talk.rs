//! What a server is asked, and what it may answer: MCP 2025-11-25 (and before) by its handshake, 2026-07-28 where
//! it knows no handshake. Every line is read strictly: one meaning, within bounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Instant,
};

use gate::json::{self, JsonError, Limits, Value};

/// A connection to a server.
pub trait Link {
    /// Sends a line.
    ///
    /// # Errors
    /// When the server does not take it.
    fn send(&mut self, line: &str) -> io::Result<()>;

    /// The next line that it says.
    ///
    /// # Errors
    /// When there is none until then.
    fn next(&mut self, deadline: Instant) -> Result<Vec<u8>, LinkError>;
}

/// Why there is no line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkError {
    /// It says more than it may.
    Large,
    /// Its time is over.
    Late,
    /// It is gone.
    Over,
}

/// Why a server's tools are not known.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// It gives a page that it gave before.
    #[error("the server gives the same page of its tools again and again")]
    Circle,
    /// It says more than it may.
    #[error("the server says more than 8 MiB in one line, or 32 MiB in all")]
    Large,
    /// Its time is over.
    #[error("the server did not answer `{method}` in its time (--seconds)")]
    Late {
        /// What was asked.
        method: &'static str,
    },
    /// More than it may.
    #[error("the server has more than {most} {what}")]
    Many {
        /// How many.
        most: usize,
        /// Of what.
        what: &'static str,
    },
    /// What it says has not one meaning.
    #[error("what the server answers to `{method}` is refused: {why}")]
    Json {
        /// What was asked.
        method: &'static str,
        /// Why.
        why: JsonError,
    },
    /// It is gone.
    #[error("the server ended, or does not read, before it answered `{method}`")]
    Over {
        /// What was asked.
        method: &'static str,
    },
    /// It speaks another revision.
    #[error("the server speaks MCP {found}; this asks by 2025-11-25 and before, or by 2026-07-28")]
    Protocol {
        /// What it says.
        found: String,
    },
    /// It says no.
    #[error("the server refuses `{method}`: {why}")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// What it says.
        why: String,
    },
    /// An answer of another shape.
    #[error("the server's answer to `{method}` is not what MCP says: {why}")]
    Shape {
        /// What was asked.
        method: &'static str,
        /// What is wrong.
        why: &'static str,
    },
}

/// What a server lists.
#[derive(Debug)]
pub struct Listed {
    /// What it calls itself: its own word.
    pub server: String,
    /// By which revision.
    pub protocol: String,
    /// Its tools, as it says them.
    pub tools: Vec<Value>,
}

type Object = BTreeMap<String, Value>;

const INITIALIZE: &str = "initialize";
const DISCOVER: &str = "server/discover";
const LIST: &str = "tools/list";

/// The revisions with a handshake.
const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const SELF_CONTAINED: &str = "2026-07-28";

/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;

/// The most pages, and the most lines that are no answer.
const PAGES_MAX: usize = 200;
const ASIDE_MAX: usize = 10_000;

/// The longest cursor.
const CURSOR_MAX: usize = 4 << 10;

const LIMITS: Limits = Limits {
    bytes: 8 << 20,
    depth: Limits::DEPTH_MAX,
    nodes: 1_000_000,
};

/// Asks for every page of the tools.
///
/// # Errors
/// When the server does not answer as MCP has it, within the bounds, until `deadline`.
pub fn list(link: &mut dyn Link, deadline: Instant) -> Result<Listed, TalkError> {
    let mut asking = Asking {
        link,
        deadline,
        number: 0,
        aside: 0,
        meta: None,
    };
    let (server, protocol) = asking.begin()?;
    let mut tools = Vec::new();
    let mut seen = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _page in 0..PAGES_MAX {
        let params = cursor.iter().map(|it| ("cursor".to_owned(), text(it)));
        let mut page = asking.ask(LIST, params.collect())?.map_err(refused(LIST))?;
        if let Some(Value::Text(kind)) = page.get("resultType")
            && kind != "complete"
        {
            return Err(shape(LIST, "it wants something of a client first"));
        }
        let Some(Value::List(more)) = page.remove("tools") else {
            return Err(shape(LIST, "it has no list `tools`"));
        };
        tools.extend(more);
        cursor = match page.remove("nextCursor") {
            None | Some(Value::Null) => {
                return Ok(Listed {
                    server,
                    protocol,
                    tools,
                });
            }
            Some(Value::Text(next)) if next.len() <= CURSOR_MAX => Some(next),
            Some(_) => return Err(shape(LIST, "its `nextCursor` is no short text")),
        };
        if !seen.insert(cursor.clone()) {
            return Err(TalkError::Circle);
        }
    }
    Err(TalkError::Many {
        most: PAGES_MAX,
        what: "pages of tools",
    })
}

struct Asking<'l> {
    link: &'l mut dyn Link,
    deadline: Instant,
    number: i64,
    aside: usize,
    /// What each request carries, by a revision without a handshake.
    meta: Option<Value>,
}

/// What a server says instead of an answer.
struct No {
    code: Option<i64>,
    message: String,
}

impl Asking<'_> {
    /// The server's name, and the revision that is spoken with it.
    fn begin(&mut self) -> Result<(String, String), TalkError> {
        let params = [
            ("protocolVersion", text("2025-11-25")),
            ("capabilities", object([])),
            ("clientInfo", client()),
        ];
        match self.ask(INITIALIZE, named(params))? {
            Ok(answer) => {
                let found = said(answer.get("protocolVersion"));
                if !HANDSHAKE.contains(&found.as_str()) {
                    return Err(TalkError::Protocol { found });
                }
                let ready = [
                    ("jsonrpc", text("2.0")),
                    ("method", text("notifications/initialized")),
                ];
                self.send(INITIALIZE, &object(ready))?;
                Ok((name(answer.get("serverInfo")), found))
            }
            Err(no) if no.code == Some(METHOD_NOT_FOUND) => self.discover(),
            Err(no) => Err(refused(INITIALIZE)(no)),
        }
    }

    fn discover(&mut self) -> Result<(String, String), TalkError> {
        let key = |name: &str| format!("io.modelcontextprotocol/{name}");
        self.meta = Some(Value::Object(
            [
                (key("protocolVersion"), text(SELF_CONTAINED)),
                (key("clientCapabilities"), object([])),
                (key("clientInfo"), client()),
            ]
            .into(),
        ));
        let answer = self
            .ask(DISCOVER, Object::new())?
            .map_err(refused(DISCOVER))?;
        let speaks = matches!(
            answer.get("supportedVersions"),
            Some(Value::List(all)) if all.contains(&text(SELF_CONTAINED))
        );
        if !speaks {
            let found = answer.get("supportedVersions").map(json::canonical);
            let found = found.map(|it| String::from_utf8_lossy(&it).into_owned());
            return Err(TalkError::Protocol {
                found: found.unwrap_or_else(|| "of no revision that it says".into()),
            });
        }
        Ok((name(answer.get("serverInfo")), SELF_CONTAINED.into()))
    }

    /// Asks, and waits for the answer.
    fn ask(
        &mut self,
        method: &'static str,
        mut params: Object,
    ) -> Result<Result<Object, No>, TalkError> {
        self.number = self.number.saturating_add(1);
        let number = Value::try_from(self.number).map_err(|why| TalkError::Json { method, why })?;
        if let Some(meta) = &self.meta {
            let _none = params.insert("_meta".into(), meta.clone());
        }
        let request = [
            ("jsonrpc", text("2.0")),
            ("id", number.clone()),
            ("method", text(method)),
            ("params", Value::Object(params)),
        ];
        self.send(method, &object(request))?;
        loop {
            let line = self.link.next(self.deadline).map_err(|why| match why {
                LinkError::Large => TalkError::Large,
                LinkError::Late => TalkError::Late { method },
                LinkError::Over => TalkError::Over { method },
            })?;
            let read = json::parse(line.trim_ascii(), &LIMITS);
            let Value::Object(mut message) = read.map_err(|why| TalkError::Json { method, why })?
            else {
                return Err(shape(method, "it is no object"));
            };
            if message.get("id") == Some(&number) && !message.contains_key("method") {
                return match (message.remove("result"), message.remove("error")) {
                    (Some(Value::Object(result)), None) => Ok(Ok(result)),
                    (None, Some(Value::Object(error))) => Ok(Err(No::of(&error))),
                    _ => Err(shape(method, "it has not one object `result` or `error`")),
                };
            }
            self.aside = self.aside.saturating_add(1);
            if self.aside > ASIDE_MAX {
                return Err(TalkError::Many {
                    most: ASIDE_MAX,
                    what: "messages that nobody asked for",
                });
            }
            self.answer(method, &message)?;
        }
    }

    /// What a server asks of its client: `ping` is answered, nothing else is there.
    fn answer(&mut self, method: &'static str, message: &Object) -> Result<(), TalkError> {
        let (Some(id), Some(asked)) = (message.get("id"), message.get("method")) else {
            return Ok(());
        };
        let answer = if *asked == text("ping") {
            ("result", object([]))
        } else {
            let code = Value::try_from(METHOD_NOT_FOUND);
            let code = code.map_err(|why| TalkError::Json { method, why })?;
            let message = text("this client only lists tools");
            ("error", object([("code", code), ("message", message)]))
        };
        let answer = object([("jsonrpc", text("2.0")), ("id", id.clone()), answer]);
        self.send(method, &answer)
    }

    fn send(&mut self, method: &'static str, message: &Value) -> Result<(), TalkError> {
        let line = String::from_utf8_lossy(&json::canonical(message)).into_owned();
        let sent = self.link.send(&line);
        sent.map_err(|_gone| TalkError::Over { method })
    }
}

impl No {
    fn of(error: &Object) -> Self {
        Self {
            code: match error.get("code") {
                Some(Value::Int(code)) => Some(code.get()),
                Some(_) | None => None,
            },
            message: said(error.get("message")),
        }
    }
}

fn refused(method: &'static str) -> impl Fn(No) -> TalkError {
    move |no| TalkError::Refused {
        method,
        why: no.message,
    }
}

const fn shape(method: &'static str, why: &'static str) -> TalkError {
    TalkError::Shape { method, why }
}

impl Listed {
    /// As a file: what `custody scan` reads, with where it came from beside it.
    ///
    /// # Errors
    /// When a text of it has no form.
    pub fn export(&self) -> Result<Vec<u8>, serde_json::Error> {
        let source = object([
            ("protocol", text(&self.protocol)),
            ("said_by", text("the server itself")),
            ("server", text(&self.server)),
        ]);
        let whole = object([
            ("_meta", object([("custody/source", source)])),
            ("tools", Value::List(self.tools.clone())),
        ]);
        let mut bytes = serde_json::to_vec_pretty(&whole)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

fn client() -> Value {
    object([
        ("name", text("custody")),
        ("version", text(env!("CARGO_PKG_VERSION"))),
    ])
}

/// Name and version, as they are said.
fn name(info: Option<&Value>) -> String {
    match info {
        Some(Value::Object(info)) => {
            let (name, version) = (said(info.get("name")), said(info.get("version")));
            format!("{name} {version}").trim().into()
        }
        Some(_) | None => "a server without a name".into(),
    }
}

/// A text that is quoted: a few words of it.
fn said(value: Option<&Value>) -> String {
    const MOST: usize = 200;
    match value {
        Some(Value::Text(text)) => text.chars().take(MOST).collect(),
        Some(_) | None => String::new(),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn named<const N: usize>(members: [(&str, Value); N]) -> Object {
    let members = members.into_iter();
    members.map(|(name, it)| (name.to_owned(), it)).collect()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(named(members))
}

#[cfg(test)]
mod tests;
