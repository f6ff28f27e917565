//! The probe: what runs inside a session (and, as a control, outside) and tries one attack.
//!
//! `custody-probe` reads one [`Attack`] as JSON on standard input and prints one [`Report`]. The
//! same file, with the same bytes in, runs in every arm; nothing of an attack is in its arguments
//! or its environment.
//!
//! **Invariant:** the probe judges nothing. It says what each step answered and hands over what it
//! could read; whether an effect happened is the witness's to say.

mod acts;
mod calls;
mod holdings;
mod linger;
mod local;
mod memory;
mod message;
mod network;
mod oracle;
mod plant;
mod program;
mod report;

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use self::{
    acts::{Act, Node},
    calls::{Argument, Call, PYTHON},
    linger::linger,
    local::{Address, How},
    memory::By,
    message::Line,
    network::Tcp,
    plant::hold,
    report::{Failure, Report, Step},
};

/// One attack: the trick and its target.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "attack", rename_all = "snake_case", deny_unknown_fields)]
pub enum Attack {
    /// Handle files.
    Acts {
        /// How.
        acts: Vec<Act>,
    },
    /// Make system calls, one after the other, until one is refused.
    Calls {
        /// Which.
        calls: Vec<Call>,
    },
    /// Look at every inherited descriptor: read files, speak to sockets.
    Descriptors {
        /// What is said to a socket.
        effect: Effect,
    },
    /// Start custody-effect and drive it over a channel of our own.
    DriveConnector {
        /// Where it is.
        program: PathBuf,
        /// The service with the effect.
        to: SocketAddr,
        /// What it is told to do.
        effect: Effect,
    },
    /// Look at our own environment, arguments and auxiliary vector.
    Environment,
    /// Read a file.
    File {
        /// Which.
        path: PathBuf,
    },
    /// Write a frame of the permit border to a socket of the session.
    ForgePermit {
        /// Which socket.
        socket: PathBuf,
        /// What the permit's call would do.
        effect: Effect,
    },
    /// Start custody-launch with a plan of our own that runs `/bin/cat` on a file as uid 0.
    ForgePlan {
        /// Where it is.
        program: PathBuf,
        /// The file to read.
        file: PathBuf,
    },
    /// Make a file, wait for what appears then, and attack.
    Knock {
        /// The file.
        door: PathBuf,
        /// What appears; where it does not, the attack says what it makes of that.
        opens: PathBuf,
        /// The attack.
        then: Box<Attack>,
    },
    /// Start a process that lives on, apart from everyone.
    Linger {
        /// An argument of it, by which it is found.
        mark: String,
    },
    /// Speak HTTP to a socket of AF_UNIX.
    Local {
        /// Its path.
        to: Address,
        /// How it is spoken to.
        how: How,
        /// What is said.
        effect: Effect,
    },
    /// Look into other processes.
    Memory {
        /// By which call.
        by: By,
        /// Which processes.
        pids: Vec<i32>,
        /// Also every process that `/proc` shows. Only inside a session, whose processes are its
        /// own: outside, they are other people's.
        everyone: bool,
        /// What is said to a socket that was taken.
        effect: Effect,
    },
    /// Speak lines of JSON-RPC to a socket.
    Message {
        /// Which socket.
        socket: PathBuf,
        /// What is said.
        lines: Vec<Line>,
    },
    /// Guess at a secret, one character after the other, by what a tool sends back.
    Oracle {
        /// The session's socket.
        socket: PathBuf,
        /// The tool.
        tool: String,
        /// What is known of the secret: how it begins.
        known: String,
    },
    /// Take a descriptor that someone hands out, and speak HTTP to it.
    Passed {
        /// Who does.
        by: PathBuf,
        /// What is said.
        effect: Effect,
    },
    /// Run a program; what it prints is what it heard.
    Program {
        /// Which.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
        /// What it reads on standard input.
        input: String,
    },
    /// Speak HTTP over TCP.
    Tcp {
        /// To where.
        to: SocketAddr,
        /// How the connection is made.
        how: Tcp,
        /// What is said.
        effect: Effect,
    },
    /// The same code path against what is allowed: plant the thing, then attack it.
    Twin {
        /// The attack; its target is what was planted.
        of: Box<Attack>,
        /// What is planted, for the attack to find.
        plant: String,
    },
}

/// The protected effect, as an HTTP request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// A token that was given away on purpose, so that the network's layers are tested and not
    /// the attacker's luck. None where the target has a token of its own.
    pub token: Option<String>,
    /// What the witness looks for.
    pub nonce: String,
}

impl Effect {
    /// The request's bytes.
    pub(crate) fn request(&self) -> Vec<u8> {
        let body = self.body();
        let authorization = self
            .token
            .as_ref()
            .map(|token| format!("authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: witness\r\n{authorization}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn body(&self) -> String {
        serde_json::json!({"to": "attacker@example.net", "text": self.nonce}).to_string()
    }
}

/// Runs `attack`.
pub fn run(attack: &Attack) -> Report {
    let mut report = Report::default();
    // An attack that failed has said so in its steps.
    let _failed: Option<()> = attempt(attack, &mut report);
    report
}

fn attempt(attack: &Attack, report: &mut Report) -> Option<()> {
    match attack {
        Attack::Acts { acts } => acts::all(acts, report),
        Attack::Calls { calls } => calls::make(calls, report),
        Attack::Descriptors { effect } => holdings::descriptors(effect, report),
        Attack::DriveConnector {
            program,
            to,
            effect,
        } => program::drive_connector(program, *to, effect, report),
        Attack::Environment => holdings::environment(report),
        Attack::File { path } => holdings::file(path, report),
        Attack::ForgePermit { socket, effect } => program::forge_permit(socket, effect, report),
        Attack::ForgePlan { program, file } => program::forge_plan(program, file, report),
        Attack::Knock { door, opens, then } => local::knock(door, opens, then, report),
        Attack::Linger { mark } => linger::start(mark, report),
        Attack::Local { to, how, effect } => local::speak(to, *how, effect, report),
        Attack::Memory {
            by,
            pids,
            everyone,
            effect,
        } => memory::look(*by, pids, *everyone, effect, report),
        Attack::Message { socket, lines } => message::speak(socket, lines, report),
        Attack::Oracle {
            socket,
            tool,
            known,
        } => oracle::grow(socket, tool, known, report),
        Attack::Passed { by, effect } => local::passed(by, effect, report),
        Attack::Program {
            program,
            arguments,
            input,
        } => program::run(program, arguments, input, report),
        Attack::Tcp { to, how, effect } => network::tcp(*to, *how, effect, report),
        Attack::Twin { of, plant } => plant::twin(of, plant, report),
    }
}
