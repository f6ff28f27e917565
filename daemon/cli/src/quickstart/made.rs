//! A policy of what a scan says of the arguments, and what a person adds to it.

use std::fmt::Write as _;

use anyhow::Context as _;
use custody_scan::infer::{Authority, Scanned};
use gate::{id::PolicyName, json::Value, policy::Policy};

/// What a person adds: what each tool is to the world, and where its requests go.
const ADDED: &str = include_str!("../../../../fixtures/quickstart/policy.toml");

/// A policy, and what was made of the arguments.
#[derive(Debug)]
pub struct Made {
    /// It.
    pub policy: Policy,
    /// How many arguments only the application supplies.
    pub locked: usize,
    /// How many are the agent's words.
    pub payloads: usize,
}

impl Made {
    /// Of the tools of a scan.
    ///
    /// # Errors
    /// When the policy that comes of it is none.
    pub fn of(scanned: &[Scanned<'_>]) -> anyhow::Result<Self> {
        let (mut text, mut locked, mut payloads) = (String::from(ADDED), 0, 0);
        for tool in scanned {
            for (argument, judged) in tool.arguments() {
                let head = format!("\n[tools.{}.arguments.{}]\n", tool.tool.name, argument.name);
                text.push_str(&head);
                match judged.inferred.authority {
                    // The value that the application gives has the argument's name here.
                    Authority::Bounded | Authority::Locked => {
                        locked += 1;
                        writeln!(
                            text,
                            "authority = \"verified\"\nvalue = \"{}\"",
                            argument.name
                        )?;
                    }
                    Authority::Payload => {
                        payloads += 1;
                        text.push_str("authority = \"payload\"\ntype = \"string\"\n");
                        if let Some(Value::Int(most)) = argument.bounds.numbers.get("maxLength") {
                            writeln!(text, "max_length = {}", most.get())?;
                        }
                    }
                }
            }
        }
        let name = PolicyName::parse("quickstart").context("the name of a policy")?;
        let policy = Policy::compile(&name, &text).context("the policy of a scan")?;
        Ok(Self {
            policy,
            locked,
            payloads,
        })
    }
}
