//! Our decision on a call, timed in a process of its own, by the same commands as the peers' of `cargo xtask bench gate`.
//!
//! Reads one JSON object (the setting), then commands, one a line: `decide N`, `ruled N` (the same with rules of an
//! operator's) and `record N` answer with a JSON list of N times in nanoseconds, `sizes 1` with the bytes of the index and of what was recorded; the end of the input ends it.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, BufRead as _, Write as _},
    time::Instant,
};

use custody_rules::Rules;
use gate::{
    call::Call,
    decide::{Ask, Verdict, decide},
    id::{ArgumentName, PolicyName, ToolName},
    json::{Limits, Value, canonical, parse},
    policy::Policy,
    session::{Facts, Opening},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Setting {
    arguments: Value,
    reader: ToolName,
    size: usize,
    task: String,
    tool: ToolName,
    tools: Vec<ToolName>,
    words: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = io::stdin().lock().lines();
    let first = lines.next().ok_or("no setting")??;
    let setting: Setting = serde_json::from_str(&first)?;
    let mut session = Session::open(setting)?;
    for line in lines {
        let line = line?;
        let (what, count) = line.split_once(' ').ok_or("no count")?;
        let mut times = Vec::new();
        for _ in 0..count.parse::<u32>()? {
            match what {
                "decide" => times.push(session.decide(None)?),
                "ruled" => times.push(session.decide(Some(&session.ruled))?),
                "record" => times.push(session.record()),
                "sizes" => {
                    let usage = session.facts.usage();
                    times.push(u128::try_from(usage.memory)?);
                    times.push(u128::try_from(usage.recorded)?);
                }
                _ => return Err(format!("no command `{what}`").into()),
            }
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&times)?)?;
        out.flush()?;
    }
    Ok(())
}

struct Session {
    bytes: Vec<u8>,
    facts: Facts,
    fresh: u64,
    policy: Policy,
    read: Call,
    ruled: Ruled,
    size: usize,
    tool: ToolName,
    words: Vec<String>,
}

/// The same policy with rules of an operator's: some of each tool, and some of all.
struct Ruled {
    policy: Policy,
    rules: Rules,
}

impl Ruled {
    fn new(tools: &[ToolName], text: &str) -> Result<Self, Box<dyn Error>> {
        let mut rules = RULES_OF_ALL.to_owned();
        for tool in tools {
            rules.push_str(&RULES.replace("TOOL", tool.as_str()));
        }
        let text = format!("{text}\n[rules]\ncedar = \"bench.cedar\"\n");
        let beside = |_: &str| Ok(rules.clone());
        let policy = Policy::compile_beside(&PolicyName::parse("bench")?, &text, &beside)?;
        Ok(Self {
            rules: Rules::load(&policy)?,
            policy,
        })
    }
}

impl Session {
    fn open(setting: Setting) -> Result<Self, Box<dyn Error>> {
        let mut text = HEAD.to_owned();
        for tool in &setting.tools {
            text.push_str(&TOOL.replace("TOOL", tool.as_str()));
        }
        let policy = Policy::compile(&PolicyName::parse("bench")?, &text)?;
        let opening = Opening {
            task: Some(setting.task),
            ..Opening::default()
        };
        let sink = |value: &str| -> Result<_, Box<dyn Error>> {
            Ok((ArgumentName::parse(value)?, Value::Text("x".into())))
        };
        Ok(Self {
            bytes: canonical(&setting.arguments),
            facts: Facts::open(&policy, opening)?,
            fresh: 0,
            size: setting.size,
            words: setting.words,
            read: Call {
                arguments: BTreeMap::from([sink("to")?, sink("subject")?, sink("body")?]),
                tool: setting.reader,
            },
            policy,
            ruled: Ruled::new(&setting.tools, &text)?,
            tool: setting.tool,
        })
    }

    /// From the bytes of the arguments to the verdict, as in the gate's program.
    fn decide(&self, ruled: Option<&Ruled>) -> Result<u128, Box<dyn Error>> {
        let begin = Instant::now();
        let arguments = parse(&self.bytes, &Limits::CALL)?;
        let ask = Ask::new(self.tool.as_str(), &arguments);
        let verdict = match ruled {
            None => decide(&self.policy, &self.facts, &ask),
            Some(it) => it.rules.decide(&it.policy, &self.facts, &ask),
        };
        let time = begin.elapsed().as_nanos();
        match verdict {
            Verdict::Allow(_) => Ok(time),
            other @ (Verdict::Defer(_)
            | Verdict::Hold(_)
            | Verdict::Limit(_)
            | Verdict::Refuse(_)) => {
                Err(format!("the call is not allowed: {:?}", other.explain()).into())
            }
        }
    }

    /// Another page each time: what was seen before is not recorded again.
    fn record(&mut self) -> u128 {
        self.fresh += 1;
        let result = Value::Text(page(self.fresh, &self.words, self.size));
        let begin = Instant::now();
        let _label = self.facts.record_result(&self.policy, &self.read, &result);
        begin.elapsed().as_nanos()
    }
}

/// The page of this number: words of a list, chosen by a linear congruential generator, and now and then
/// something that no other page has. The same in every contender.
fn page(number: u64, words: &[String], size: usize) -> String {
    let mut state = number;
    let mut text = String::new();
    while text.len() < size {
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
        let pick = state >> 8;
        if pick.is_multiple_of(16) {
            text.push_str(&format!("item-{number}-{pick} "));
        } else {
            let index = usize::try_from(pick).unwrap_or(0) % words.len().max(1);
            text.push_str(words.get(index).map_or("", String::as_str));
            text.push(' ');
        }
    }
    text.truncate(size);
    text
}

const HEAD: &str = r#"
format = 1
name = "bench"

[credentials.service]
connector = "http"

[credentials.service.floor]
origins = ["https://service.test"]
methods = ["POST"]
paths = ["/{}"]
"#;

const TOOL: &str = r#"
[tools.TOOL]
description = "Sends."
credential = "service"
risk = "write"
action_classes = ["external"]
on_taint = "origins"
asked_by = [["send*", "write*"]]
release = "asked"
result = "untrusted"
request = { method = "POST", url = "https://service.test/TOOL", body = "{*}" }
arguments.to = { authority = "agent", role = "sink", type = "email" }
arguments.subject = { authority = "payload", type = "string", max_length = 200 }
arguments.body = { authority = "payload", type = "string", max_length = 4000 }
"#;

const RULES_OF_ALL: &str = r#"
forbid (principal, action == Action::"call", resource)
when { context.session.handoff };
forbid (principal, action == Action::"call_unattended", resource)
when { context.call.risk == Risk::"financial" && context.session.tainted };
"#;

const RULES: &str = r#"
@id("total-of-TOOL")
forbid (principal, action == Action::"call", resource == Tool::"TOOL")
when { context.after.day.calls > 1000000 };
@id("nowhere-of-TOOL")
forbid (principal, action == Action::"call", resource == Tool::"TOOL")
when { context.args.to.value like "*@nowhere.example" };
@id("origin-of-TOOL")
forbid (principal, action == Action::"call_unattended", resource == Tool::"TOOL")
when { context.args.to.origin == Origin::"untrusted" };
"#;
