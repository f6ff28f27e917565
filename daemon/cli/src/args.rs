//! The command line.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use custody_wire::{operator::SOCKET, profile::Profile};
use gate::{
    chain::{ChainName, Place},
    digest::DigestError,
    id::{OwnedName, PolicyName, RoleName, SessionId, TenantName, ToolName, ValueName},
    meaning::Subject,
    policy::Boundary,
};

use crate::ledger::{Trusted, select::Filter, show::Wanted, time};
use crate::review::answer::Typed;

const EXIT_CODES: &str = "\
Exit codes:
  0        done
  1        what was checked is not good (diff, doctor, policy check, policy fmt --check, ledger verify, replay, why); what was
           approved was not performed, or may not have been (approve)
  2        the command line is wrong
  125      custody itself failed, or refused; the reason is on standard error
  126      the command of `run` could not be executed
  127      the command of `run` was not found
  128+N    the command of `run` was killed by signal N
  other    what the command of `run` exited with";

/// `custody`.
#[derive(Debug, Parser)]
#[command(
    name = "custody",
    version,
    about = "Run AI agents confined, without the credentials that they use",
    after_help = EXIT_CODES,
    max_term_width = 100
)]
pub struct Arguments {
    /// The service's socket
    #[arg(long, global = true, value_name = "PATH", env = "CUSTODY_SOCKET", default_value = SOCKET)]
    pub socket: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Approve a call that waits, and say what came of it
    ///
    /// This program takes the digest of the bytes that it shows and approves that, and nothing else. Where
    /// the call needs your signature, `ssh-keygen -Y sign` makes it with your key, your agent or your
    /// hardware key.
    Approve(Approve),
    /// Say what a ledger's own traffic shows of its policies: action classes, result labels, review load
    ///
    /// Reads a state folder, a copy of one, or a file that `ledger export` wrote, verified with public keys
    /// first; needs no service and changes nothing. What it advises only tightens, or asks a person.
    Audit(Audit),
    /// Say what changed between two exports: where authority grew, where it shrank, what a person looks at
    ///
    /// BEFORE must come from a revision that is protected: whoever can change both files can say anything. A
    /// diff authenticates neither of them, and proves nothing of what an implementation does.
    Diff(Compare),
    /// Try what a session must not be able to do, and say whether a profile can be had here
    Doctor(Doctor),
    /// RUN an MCP server, unconfined and as you, and write the tools that it lists to a file for `custody scan`
    ///
    /// The only command that starts somebody else's program outside of a session: its code has your files, your
    /// network and your keys. Where you have a list of the tools already, scan that instead.
    ImportLive(ImportLive),
    /// Look at the ledger: decision records and receipts
    Ledger {
        /// What.
        #[command(subcommand)]
        what: LedgerWhat,
    },
    /// Look at a policy
    Policy {
        /// What.
        #[command(subcommand)]
        what: PolicyWhat,
    },
    /// List the calls that wait for a person and that you may see
    Pending {
        /// Those too that wait no longer
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List your sessions; root sees all
    ///
    /// ALLOWED and REFUSED count what the hooks of the kernel saw of a session: connections and other
    /// network calls, passed descriptors, and what a hook refused. custodyd says them every few seconds.
    Ps {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// See in a second what this is: a scan, a policy, calls through the gate. No root, no service, no network
    ///
    /// Scans an embedded list of tools, makes a policy of it in memory, and asks the gate about a few calls. The
    /// effects are simulated and counted; no file is written.
    Quickstart,
    /// Refuse a call that waits; the agent is told why
    Refuse(Refuse),
    /// Say what a policy would answer to calls that were recorded; nothing is performed
    Replay {
        /// The policy, NAME.toml
        policy: PathBuf,
        /// Recorded sessions: files of the form custody-trace/1, or tasks of the form
        /// agentdojo-replay/1
        #[arg(required = true, value_name = "TRACE")]
        traces: Vec<PathBuf>,
        /// As JSON, one call a line
        #[arg(long)]
        json: bool,
    },
    /// Go through the calls that wait, one after the other, in the terminal
    Review {
        /// Your SSH key, for calls that need your signature; a .pub file asks your agent
        #[arg(long, value_name = "FILE", conflicts_with = "web")]
        key: Option<PathBuf>,
        /// Print a link to the reviewers' page instead. It logs you in once, within three minutes: give it
        /// to nobody
        #[arg(long)]
        web: bool,
    },
    /// Take a credential, a policy or a session back, for good: what uses it is cut off at once
    ///
    /// Root alone; a session also whoever runs it. A policy's sessions end. It stays so over every restart:
    /// custodyd keeps it in the file `revoked` of its state folder (/var/lib/custody), a line each. To undo it,
    /// remove the line and start custodyd again.
    Revoke {
        /// credential, policy or session
        #[arg(value_name = "KIND", value_parser = ["credential", "policy", "session"])]
        kind: String,
        /// Which: a label, a name, an id
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run a command confined
    Run(Run),
    /// Say which arguments of exported tools carry authority; offline, and nothing is run
    ///
    /// Reads tools as MCP's tools/list, OpenAI and Anthropic have them, and says of each argument who may
    /// author it: `locked` (nobody whose words are not trusted), `payload` (anybody). Names and types decide,
    /// and what they do not say is locked; what a tool says of itself is a hint for you and frees nothing.
    /// The tools are not asked, started or fetched.
    Scan(Scan),
    /// Show a call that waits, or waited: its exact values, where each comes from, and why it waits
    Show {
        /// Which.
        #[command(flatten)]
        call: Waiting,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether the service runs, and which policies you may use
    Status,
    /// End sessions: every process of them is killed
    Stop {
        /// Sessions, as `custody ps` lists them
        #[arg(required = true, value_name = "SESSION", value_parser = SessionId::parse)]
        sessions: Vec<SessionId>,
    },
    /// Say something to one of your sessions, as its application
    Tell {
        /// Which, as `custody ps` lists it
        #[arg(value_name = "SESSION", value_parser = SessionId::parse)]
        session: SessionId,
        /// What.
        #[command(flatten)]
        what: Tell,
    },
    /// Let a tool go on that was locked because its effect was not there when it was read back. Root alone
    Unlock {
        /// Which, of every policy that has it
        #[arg(value_name = "TOOL", value_parser = ToolName::parse)]
        tool: ToolName,
    },
    /// Say how a policy decides on a call, and what would change it; nothing is performed
    Why {
        /// The policy, NAME.toml
        policy: PathBuf,
        /// The call: the last one of a session of the form custody-trace/1; what the calls before it
        /// brought has been seen
        call: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// A call that waits.
#[derive(Args, Debug)]
pub struct Waiting {
    /// The call, as `custody pending` lists it
    #[arg(value_name = "ID")]
    pub pending: u64,
    /// The session whose call it is, where several daemons share their approvals
    #[arg(long, value_name = "SESSION", value_parser = SessionId::parse)]
    pub session: Option<SessionId>,
}

/// A yes.
#[derive(Args, Debug)]
pub struct Approve {
    /// Which.
    #[command(flatten)]
    pub call: Waiting,
    /// How far it goes; never beyond the session
    #[arg(long, value_enum, default_value = "once")]
    pub scope: Typed,
    /// For how long: `90s`, `10m`, `2h`
    #[arg(long = "for", value_name = "TIME", value_parser = custody_shown::words::parse_span)]
    pub span: Option<Duration>,
    /// The digest that you saw, or its first eight digits or more: another is not approved
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
    /// Sign with this SSH key; a .pub file asks your agent
    #[arg(long, value_name = "FILE", conflicts_with = "sign_with")]
    pub key: Option<PathBuf>,
    /// Sign with this command of the shell: it reads the statement and writes the signature, as
    /// `ssh-keygen -Y sign -n custody-approval@v1 -f KEY` does
    #[arg(long, value_name = "COMMAND")]
    pub sign_with: Option<String>,
}

/// A no.
#[derive(Args, Debug)]
pub struct Refuse {
    /// Which.
    #[command(flatten)]
    pub call: Waiting,
    /// Why, for the agent
    #[arg(long, value_name = "TEXT")]
    pub why: String,
}

/// Exports to scan.
#[derive(Args, Debug)]
#[command(after_help = SCAN_HELP)]
pub struct Scan {
    /// Exports: a tools/list (`{"tools": [...]}`, an array, or a JSON-RPC result), OpenAI's functions or
    /// Anthropic's tools; one dialect a file
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What somebody states of the tools (version 1): shown beside what is inferred, never instead, and
    /// verified by nothing
    #[arg(long, value_name = "FILE")]
    pub controls: Option<PathBuf>,
    /// Leave out names, words, bounds and digests. Such a report cannot be compared with another
    #[arg(long)]
    pub redact_names: bool,
    /// For people, or for machines
    #[arg(long, value_enum, default_value = "md")]
    pub format: ReportFormat,
    /// Into this file, whole or not at all, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Two exports to compare.
#[derive(Args, Debug)]
#[command(after_help = DIFF_HELP)]
pub struct Compare {
    /// The export that is there, of a protected revision
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The export that is to come
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Exit with 1 if whoever writes the arguments decides more than before
    #[arg(long)]
    pub fail_on_increase: bool,
    /// Exit with 1 if a change is for a person, or anything is left to look at in AFTER, new or not
    #[arg(long)]
    pub fail_on_review: bool,
    /// What somebody states of the tools of BEFORE, as `scan --controls` reads it
    #[arg(long, value_name = "FILE")]
    pub controls_before: Option<PathBuf>,
    /// The same of AFTER
    #[arg(long, value_name = "FILE")]
    pub controls_after: Option<PathBuf>,
    /// For people, or for machines
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormat,
    /// Into this file, whole or not at all, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The form of a diff.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum DiffFormat {
    /// JSON, in ASCII, the same bytes for the same files
    Json,
    /// A change a line
    Text,
}

const DIFF_HELP: &str = "\
Exit codes: 0 nothing that was asked for, 1 what --fail-on-increase or --fail-on-review asks for was found, 2 the \
command line is wrong, 125 a file was refused; the reason is on standard error. Both files are exports as they \
came, not reports. What files may be is said by `custody scan --help`.";

/// The form of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ReportFormat {
    /// JSON, in ASCII, the same bytes for the same files
    Json,
    /// Markdown
    Md,
}

const SCAN_HELP: &str = "\
A file has at most 8 MiB, 100,000 values and 500 tools, a tool 2,000 arguments, an enum 10,000 members; \
a run 500 files and 16 MiB. What is over, ambiguous or not strict JSON is refused whole, with the place and \
what to do, and status 125. A scan that is done has status 0, whatever it found.";

/// What an application says.
#[derive(Args, Debug)]
#[group(id = "told", required = true, multiple = false)]
pub struct Tell {
    /// The person or the operator says this: it is authoritative
    #[arg(long, value_name = "TEXT")]
    pub message: Option<String>,
    /// Somebody passed this on: a JSON object with exactly `from`, `task`, `page_id` and `summary`, each
    /// a text. It taints; say it before the agent sees it
    #[arg(long, value_name = "FILE")]
    pub handoff: Option<PathBuf>,
    /// No more than this is needed any longer, as `run --scope` has it; nothing widens it again
    #[arg(long, value_name = "FILE")]
    pub narrow: Option<PathBuf>,
    /// The turn is over: what was deferred in it is decided on
    #[arg(long)]
    pub end_turn: bool,
}

/// A server to run for its tools.
#[derive(Args, Debug)]
#[command(after_help = "\
The server speaks MCP over its standard input and output: by the handshake of 2025-11-25 and before, or by \
2026-07-28. It gets an environment of its own: PATH, HOME, the language and time of yours, and what --env names. \
It is ended with all that it started in its process group. Nothing of what it says is believed: it is read within \
bounds, and written only if `custody scan` can read it.")]
pub struct ImportLive {
    /// The file to write, whole or not at all
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Yes, run it; without this a terminal is asked
    #[arg(long)]
    pub yes_run_it: bool,
    /// Give the server this variable of your environment, or this value. May be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// How long it may take in all
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// The server's command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What to say of a ledger's traffic.
#[derive(Args, Debug)]
#[command(after_help = "\
A record that no checkpoint covers is not counted, and the report says how many there are. Exit code: 0 if \
the report was written, 125 if the ledger, the export or a policy is not good; then nothing was written.")]
pub struct Audit {
    /// A state folder (/var/lib/custody) or a copy of one; or a file that `ledger export` wrote
    #[arg(value_name = "STATE_DIR|EXPORT")]
    pub what: PathBuf,
    /// A policy as it is now, NAME.toml: what its tools declare is held against the traffic. May be repeated
    #[arg(long = "policy", value_name = "FILE")]
    pub policies: Vec<PathBuf>,
    /// Only from then on, by the host's clock: 2026-11-30T16:00:00Z, or how long ago: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    pub since: Option<u64>,
    /// How it is written
    #[arg(long, value_enum, default_value = "text")]
    pub format: AuditFormat,
    /// Into this file, whole or not at all, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Which public keys count.
    #[command(flatten)]
    pub keys: LedgerKeys,
}

/// How an audit is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum AuditFormat {
    /// Its report_version and everything that was counted, one JSON object
    Json,
    /// Markdown
    Md,
    /// For a terminal
    Text,
}

/// What about the ledger.
#[derive(Debug, Subcommand)]
pub enum LedgerWhat {
    /// Write records for others: one group a line, each with the envelope that signs it (DSSE, in-toto)
    ///
    /// `custody ledger verify FILE` checks what was written with public keys alone. Records that no checkpoint
    /// follows are not written.
    Export {
        /// A state folder (/var/lib/custody) or a copy of one
        dir: PathBuf,
        /// Which records.
        #[command(flatten)]
        filter: LedgerFilter,
        /// Withhold a field of every record that has it: its names joined by dots, as `task` or
        /// `call.arguments.to`. A part of a call takes with it the digests and sentences that would say it in other
        /// words. A value that also stands in another field is there, unless you name that one too. May be repeated
        #[arg(long = "redact", value_name = "FIELD")]
        redact: Vec<String>,
        /// Which public keys count.
        #[command(flatten)]
        keys: LedgerKeys,
    },
    /// List records, each in a line; what no checkpoint covers says so
    List {
        /// A state folder (/var/lib/custody) or a copy of one
        dir: PathBuf,
        /// Which records.
        #[command(flatten)]
        filter: LedgerFilter,
        /// As JSON, one record a line
        #[arg(long)]
        json: bool,
        /// Which public keys count.
        #[command(flatten)]
        keys: LedgerKeys,
    },
    /// Show a record and what belongs to it: decision, approval, intent, receipt, outcome
    Show {
        /// A state folder (/var/lib/custody) or a copy of one
        dir: PathBuf,
        /// POSITION of a decision, CHAIN:POSITION, or the digest of a record or a call
        #[arg(value_name = "WHICH", value_parser = Wanted::parse)]
        wanted: Wanted,
        /// Which public keys count.
        #[command(flatten)]
        keys: LedgerKeys,
    },
    /// Verify both chains and what each receipt rests on, offline, with public keys alone; name the
    /// first bad line, and what is not signed
    Verify {
        /// A state folder (/var/lib/custody) or a copy of one; or a file that `ledger export` wrote
        dir: PathBuf,
        /// A head that was noted elsewhere (custodyd notes both in the journal, in lines `ledger
        /// head`): it must stand in its chain, or the chain's end was cut off. May be repeated
        #[arg(long = "head", value_name = "CHAIN:POSITION:DIGEST", value_parser = head)]
        heads: Vec<(ChainName, Place)>,
        /// Lines of the journal, as journalctl(1) prints them; - is standard input. Every head noted in
        /// them must stand in its chain
        #[arg(long = "heads", value_name = "FILE")]
        noted: Option<PathBuf>,
        /// Which public keys count.
        #[command(flatten)]
        keys: LedgerKeys,
    },
}

/// Which records.
#[derive(Args, Debug)]
pub struct LedgerFilter {
    /// Only of this chain: decisions or receipts
    #[arg(long, value_name = "CHAIN", value_parser = chain)]
    pub chain: Option<ChainName>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", value_parser = SessionId::parse)]
    pub session: Option<SessionId>,
    /// Only of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only with this outcome: allowed, refused, held, done, failed, in_doubt, …
    #[arg(long, value_name = "WORD")]
    pub outcome: Option<String>,
    /// Only from then on, by the host's clock: 2026-11-30T16:00:00Z, or how long ago: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    pub since: Option<u64>,
}

impl From<LedgerFilter> for Filter {
    fn from(given: LedgerFilter) -> Self {
        Self {
            chain: given.chain,
            session: given.session,
            tool: given.tool,
            outcome: given.outcome,
            since: given.since,
        }
    }
}

/// Which public keys count.
#[derive(Args, Debug)]
pub struct LedgerKeys {
    /// A folder of public keys that you kept elsewhere, instead of the one beside the chains: files
    /// decisions.pub, receipts.pub, instance.pub, and NAME.revoked
    #[arg(long = "keys", value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// A public key that you kept elsewhere, instead of the folder's for its chain. May be repeated
    #[arg(long = "key", value_name = "CHAIN=FILE", value_parser = key)]
    pub keys: Vec<(ChainName, PathBuf)>,
}

impl From<LedgerKeys> for Trusted {
    fn from(given: LedgerKeys) -> Self {
        Self {
            folder: given.folder,
            keys: given.keys,
        }
    }
}

impl From<&LedgerKeys> for Trusted {
    fn from(given: &LedgerKeys) -> Self {
        Self {
            folder: given.folder.clone(),
            keys: given.keys.clone(),
        }
    }
}

/// What about a policy.
#[derive(Debug, Subcommand)]
pub enum PolicyWhat {
    /// Compile a policy file offline; show its hash, or everything that is wrong, each with its line
    Check {
        /// The policy, NAME.toml
        file: PathBuf,
        /// Also check that this configuration has every credential that the policy names
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Write a policy file in the form that all have: spacing, never order, comments or meaning
    ///
    /// The file is replaced whole, and only where the policy that comes of it has the same hash as before. A file that
    /// is no policy is left alone; what is wrong with it is said.
    Fmt {
        /// The policy, NAME.toml
        file: PathBuf,
        /// Write nothing; exit code 1 where it has another form
        #[arg(long)]
        check: bool,
    },
    /// Draft a policy from what a scan says; each guess in it is marked, and none opens anything
    ///
    /// What `custody scan` calls locked is authored by the application or is one of a list; what a policy cannot say
    /// is left out. Requests go to a host that cannot be, and calls of unknown risk wait for a person, until you
    /// write it otherwise. No tool is asked, started or fetched. A file that is there is never replaced.
    Init(Init),
}

/// A policy to draft.
#[derive(Args, Debug)]
pub struct Init {
    /// The export, as `custody scan` reads it
    #[arg(value_name = "EXPORT")]
    pub export: PathBuf,
    /// What somebody states of the tools, as `scan --controls` reads it: risks, and no argument's author
    #[arg(long, value_name = "FILE")]
    pub controls: Option<PathBuf>,
    /// Into this new file, NAME.toml, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A command to run confined.
#[derive(Args, Debug)]
#[command(after_help = "\
The command gets a private terminal if standard input and output are one, pipes otherwise; never \
your own. Its environment is made anew: LANG, the LC_ names of locale(7), TERM, TZ, COLORTERM \
and what --env names are taken from yours. Signals HUP, INT, QUIT, TERM, USR1, USR2 and WINCH are \
passed on.")]
pub struct Run {
    /// The policy; may be left out if you may use only one
    #[arg(long, value_name = "NAME", value_parser = PolicyName::parse)]
    pub policy: Option<PolicyName>,
    /// A stricter profile than the policy's: hardened, standard or dev
    #[arg(long, value_name = "NAME", value_parser = profile)]
    pub profile: Option<Profile>,
    /// Delegate from this session of yours: the command has of its authority what you leave in, and never
    /// more. Policy, subject, tenant and trusted values are that one's; what the command spends of a limit,
    /// that one has spent; it ends with it
    #[arg(long, value_name = "SESSION", value_parser = SessionId::parse,
          conflicts_with_all = ["values", "subject", "tenant"])]
    pub from: Option<SessionId>,
    /// With --from: of its trusted values only these, separated by commas; empty is none
    #[arg(long, value_name = "NAMES", requires = "from", value_parser = Names::<ValueName>::values)]
    pub only_values: Option<Names<ValueName>>,
    /// With --from: of its roles only these, separated by commas; empty is none
    #[arg(long, value_name = "NAMES", requires = "from", value_parser = Names::<RoleName>::roles)]
    pub only_roles: Option<Names<RoleName>>,
    /// With --from: how far the data reach at most: user, team or organisation
    #[arg(long, value_name = "NAME", requires = "from", value_parser = boundary)]
    pub boundary: Option<Boundary>,
    /// The folder that the command works in; it must be your own
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// A trusted value; the configuration says who may set which
    #[arg(long = "value", value_name = "NAME=VALUE", value_parser = value)]
    pub values: Vec<(ValueName, String)>,
    /// An owned set: the values that the subject of this session has, separated by commas. With --from:
    /// those members of its set that are given; a set that is not named is given whole
    #[arg(long = "owned", value_name = "NAME=V1,V2", value_parser = owned)]
    pub owned: Vec<(OwnedName, Vec<String>)>,
    /// The end user for whom the session works; the configuration says who may name one
    #[arg(long, value_name = "WHO", value_parser = Subject::parse)]
    pub subject: Option<Subject>,
    /// In whose name it works; the configuration says who may name which
    #[arg(long, value_name = "NAME", value_parser = TenantName::parse)]
    pub tenant: Option<TenantName>,
    /// What the person asked for
    #[arg(long, value_name = "TEXT")]
    pub task: Option<String>,
    /// What the task needs, if not all that the policy has: JSON, `{"tools": {"NAME": {"calls": 1}}}`
    #[arg(long, value_name = "FILE")]
    pub scope: Option<PathBuf>,
    /// An environment variable; NAME alone takes its value from your environment. No credentials:
    /// whatever is in it, the command can read
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub environment: Vec<OsString>,
    /// Show what each layer of the confinement says of itself
    #[arg(long)]
    pub layers: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What to look for.
#[derive(Args, Debug)]
#[command(after_help = "\
Starts a throwaway session for each profile, tries in it what must not succeed, and shows the \
kernel's own answers. Where the service does not run it looks at the host alone. Exit code: 0 if \
the profile can be had, 1 if not, 125 if it could not be tried.")]
pub struct Doctor {
    /// The profile that must be had: hardened, standard or dev
    #[arg(long, value_name = "NAME", value_parser = profile, default_value = "standard")]
    pub profile: Profile,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Names, separated by commas. In a type of its own: clap takes a set for an option that repeats.
#[derive(Clone, Debug)]
pub struct Names<N>(pub BTreeSet<N>);

impl Names<ValueName> {
    fn values(text: &str) -> Result<Self, String> {
        names(text, ValueName::parse).map(Self)
    }
}

impl Names<RoleName> {
    fn roles(text: &str) -> Result<Self, String> {
        names(text, RoleName::parse).map(Self)
    }
}

fn names<N: Ord, E: ToString>(
    text: &str,
    parse: impl Fn(&str) -> Result<N, E>,
) -> Result<BTreeSet<N>, String> {
    if text.is_empty() {
        return Ok(BTreeSet::new());
    }
    let parsed = text.split(',').map(parse);
    parsed
        .map(|it| it.map_err(|error| error.to_string()))
        .collect()
}

fn boundary(text: &str) -> Result<Boundary, String> {
    let found = Boundary::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| {
        format!("`{text}` is not a boundary; there are `user`, `team`, `organisation`")
    })
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::parse(text).ok_or_else(|| {
        format!("`{text}` is not a profile; there are `dev`, `standard`, `hardened`")
    })
}

fn head(text: &str) -> Result<(ChainName, Place), String> {
    let mut parts = text.splitn(3, ':');
    let (Some(name), Some(position), Some(digest)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err("it must be CHAIN:POSITION:DIGEST".into());
    };
    let position = position
        .parse()
        .ok()
        .filter(|position| *position > 0)
        .ok_or_else(|| format!("`{position}` is not a position; they count from 1"))?;
    let digest = String::from(digest)
        .try_into()
        .map_err(|error: DigestError| error.to_string())?;
    Ok((chain(name)?, Place { digest, position }))
}

fn key(text: &str) -> Result<(ChainName, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("it must be CHAIN=FILE")?;
    Ok((chain(name)?, file.into()))
}

fn chain(name: &str) -> Result<ChainName, String> {
    ChainName::ALL
        .into_iter()
        .find(|chain| chain.as_str() == name)
        .ok_or_else(|| format!("`{name}` is not a chain; there are `decisions` and `receipts`"))
}

fn value(text: &str) -> Result<(ValueName, String), String> {
    let (name, value) = split(text)?;
    let name = ValueName::parse(name).map_err(|error| error.to_string())?;
    Ok((name, value.into()))
}

fn owned(text: &str) -> Result<(OwnedName, Vec<String>), String> {
    let (name, values) = split(text)?;
    let name = OwnedName::parse(name).map_err(|error| error.to_string())?;
    let values = if values.is_empty() {
        Vec::new()
    } else {
        values.split(',').map(Into::into).collect()
    };
    Ok((name, values))
}

fn split(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=')
        .ok_or_else(|| "it must be NAME=VALUE".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        crate::command().debug_assert();
    }

    #[test]
    fn a_head_is_a_chain_a_position_and_a_digest() {
        let digest = "0f".repeat(32);
        let (chain, place) = head(&format!("receipts:7:{digest}")).unwrap();
        assert_eq!((chain, place.position), (ChainName::Receipts, 7));
        assert_eq!(place.digest.to_string(), digest);
        for bad in [
            format!("others:7:{digest}"),
            format!("receipts:0:{digest}"),
            format!("receipts:-1:{digest}"),
            format!("receipts:7:{digest}0"),
            format!("receipts:{digest}"),
            String::new(),
        ] {
            assert!(head(&bad).is_err(), "{bad}");
        }
        assert!(key("receipts").is_err() && key("x=y").is_err() && key("decisions=y").is_ok());
    }

    #[test]
    fn what_is_left_of_a_delegated_session_is_named() {
        let parse = |more: &[&str]| {
            let given = ["custody", "run", "--from", "000000000000002a"];
            let given = given.iter().chain(more).chain(&["--", "true"]);
            let parsed = Arguments::try_parse_from(given).ok()?;
            let What::Run(run) = parsed.what else {
                return None;
            };
            Some(run)
        };
        let run = parse(&["--only-values", "", "--only-roles", "a,b"]).unwrap();
        assert!(run.only_values.unwrap().0.is_empty());
        assert_eq!(run.only_roles.unwrap().0.len(), 2);
        assert!(parse(&[]).unwrap().only_values.is_none());
        assert!(parse(&["--boundary", "team"]).is_some());
        for bad in [
            ["--boundary", "moon"],
            ["--only-roles", "a,,b"],
            ["--value", "a=b"],
            ["--subject", "x"],
            ["--tenant", "acme"],
        ] {
            assert!(parse(&bad).is_none(), "{bad:?}");
        }
        let alone = ["custody", "run", "--only-values", "a", "--", "true"];
        assert!(Arguments::try_parse_from(alone).is_err());
    }

    #[test]
    fn values_and_owned_sets_are_named() {
        assert_eq!(value("a=b=c").unwrap().1, "b=c");
        assert!(value("a").is_err());
        assert!(value("A=b").is_err());
        assert_eq!(owned("a=x,y").unwrap().1, ["x", "y"]);
        assert!(owned("a=").unwrap().1.is_empty());
    }
}
