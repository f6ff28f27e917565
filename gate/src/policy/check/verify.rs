//! Read-backs: what they name is there, and they stand on the floor as every request does.

use alloc::{string::String, vec::Vec};

use super::{kind, range, request};
use crate::{
    id::ArgumentName,
    policy::{
        Argument, Command, Credential, Kind, Look, Precondition, Problem, Read, Rules, Tool,
        Verify, error::Fault,
    },
    request::{IF_MATCH, Method},
    template::Text,
};

/// The statuses that say that something is gone: then there is nothing in the answer to look at.
const GONE: [u16; 2] = [404, 410];

pub(super) fn verify(tool: &Tool, verify: &Verify, credential: &Credential) -> Result<(), Fault> {
    range(verify.tries, 1, 20, &["tries"])?;
    range(verify.delay_ms, 0, 60_000, &["delay_ms"])?;
    if let Some(ms) = verify.settles_ms {
        range(ms, 0, 600_000, &["settles_ms"])?;
        if !verify.needs_no_answer() {
            return Err(Problem::Verify {
                why: "what is in doubt has no answer to take a value from; leave `settles_ms` out, \
                      or `capture`",
            }
            .at(&["settles_ms"]));
        }
    }
    for (name, capture) in &verify.captures {
        let key = ["capture", name.as_str()];
        kind::kind(&capture.kind).map_err(|it| it.under(&key))?;
        if !capture.kind.is_scalar() {
            return Err(Problem::NotScalar {
                argument: name.clone(),
            }
            .at(&key));
        }
        if !capture.pointer.is_plain() {
            return Err(PLAIN.at(&["capture", name.as_str(), "pointer"]));
        }
        if tool.arguments.contains_key(name) {
            return Err(Problem::Twice {
                what: String::from(name.clone()),
            }
            .at(&key));
        }
    }
    let known = |name: &ArgumentName| match tool.arguments.get(name) {
        Some(argument) => Some((&argument.kind, argument.optional)),
        None => verify.captures.get(name).map(|it| (&it.kind, false)),
    };
    match &verify.look {
        Look::Command(it) => command(it),
        Look::Read(it) => read(tool, it, credential, &known),
    }
}

/// The longest argument of a verifying program, or path that it reads (PATH_MAX, limits.h).
const WORD_MAX: usize = 4_096;

/// The most of them.
const WORDS_MAX: usize = 64;

fn command(command: &Command) -> Result<(), Fault> {
    range(command.timeout_ms, 1, 600_000, &["timeout_ms"])?;
    let is_word = |it: &String| it.len() <= WORD_MAX && !it.contains('\0');
    let argv_fits = command.argv.len() <= WORDS_MAX && command.argv.iter().all(is_word);
    if !argv_fits || !command.argv.first().is_some_and(|it| is_plain_path(it)) {
        return Err(Problem::Verify {
            why: "name a program by an absolute path without `.` and `..`, then its arguments, each of at most \
                  4096 bytes: `command = [\"/usr/local/lib/verify-note\"]`",
        }
        .at(&["command"]));
    }
    let reads = &command.reads;
    if reads.len() > WORDS_MAX || !reads.iter().all(|it| is_word(it) && is_plain_path(it)) {
        return Err(Problem::Verify {
            why: "name files and folders by absolute paths without `.` and `..`",
        }
        .at(&["reads"]));
    }
    Ok(())
}

/// An absolute path that leads where it says: no empty part, no `.`, no `..`, and not all of the host.
fn is_plain_path(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

pub(super) fn precondition(
    policy: &Rules,
    tool: &Tool,
    precondition: &Precondition,
    credential: &Credential,
) -> Result<(), Fault> {
    let of_call = |name: &ArgumentName| {
        let argument = tool.arguments.get(name)?;
        Some((&argument.kind, argument.optional))
    };
    let condition = match precondition {
        Precondition::ReadAgain(it) => {
            return read(tool, it, credential, &of_call).map_err(|it| it.under(&["read_again"]));
        }
        Precondition::IfMatch(text) => {
            if text.arguments().next().is_none() {
                return Err(Problem::Verify {
                    why: "a version that never changes is none; name the argument that has it: \
                          `if_match = \"{version}\"`",
                }
                .at(&["if_match"]));
            }
            for name in text.arguments() {
                let (kind, optional) =
                    of_call(name).ok_or_else(|| unknown(name).at(&["if_match"]))?;
                if !kind.is_scalar() || optional {
                    return Err(Problem::Verify {
                        why: "the version is one text or number that every call carries",
                    }
                    .at(&["if_match"]));
                }
            }
            "if_match"
        }
        Precondition::LastRead { field, tool: reads } => {
            if field.as_ref().is_some_and(|it| !it.is_plain()) {
                return Err(PLAIN.at(&["last_read", "field"]));
            }
            let of = policy.tools.get(reads).filter(|it| {
                let needed = it.arguments.iter().filter(|(_, it)| !it.optional);
                let same = |(name, argument): (&ArgumentName, &Argument)| {
                    tool.arguments
                        .get(name)
                        .is_some_and(|it| it.kind == argument.kind && !it.optional)
                };
                it.request.method == Method::Get
                    && !it.request.stream
                    && it.credential == tool.credential
                    && needed.into_iter().all(same)
            });
            if of.is_none() {
                return Err(Problem::Verify {
                    why: "name a tool of this policy that reads by GET with the same credential and does not \
                          stream, and whose arguments this tool has too, of the same types",
                }
                .at(&["last_read", "tool"]));
            }
            "last_read"
        }
    };
    if tool.request.headers.contains_key(IF_MATCH) {
        return Err(Problem::Header {
            header: IF_MATCH.into(),
            why: "is set by the precondition; leave it out",
        }
        .at(&[condition]));
    }
    Ok(())
}

const PLAIN: Problem = Problem::Verify {
    why: "one place is needed: a pointer without `*`",
};

/// Checks a read whose templates may name what `known` knows: its type, and whether it may be
/// missing.
pub(super) fn read<'a>(
    tool: &Tool,
    read: &Read,
    credential: &Credential,
    known: &dyn Fn(&ArgumentName) -> Option<(&'a Kind, bool)>,
) -> Result<(), Fault> {
    let template = &read.request;
    if template.method != Method::Get || template.body.is_some() {
        return Err(Problem::Verify {
            why: "a read is a GET without a body",
        }
        .at(&["url"]));
    }
    request::request(template, credential)?;
    request::template_on_floor(template, tool, credential)?;
    range(read.status.into(), 200, 499, &["status"])?;
    if read.expect.is_empty() && !GONE.contains(&read.status) {
        return Err(Problem::Verify {
            why: "that a server answers verifies nothing; say what must stand where: \
                  `expect = { \"/to\" = \"{to}\" }`",
        }
        .at(&["expect"]));
    }
    if !read.expect.is_empty() && !(200..300).contains(&read.status) {
        return Err(Problem::Verify {
            why: "an answer with this status has nothing to look at; leave `expect` out",
        }
        .at(&["expect"]));
    }
    let in_url: Vec<&Text> = template.path.iter().collect();
    let texts = in_url.iter().map(|it| (*it, "url", true));
    let query = template.query.iter().map(|(_, it)| (it, "url", false));
    let headers = template.headers.values().map(|it| (it, "headers", false));
    for (text, key, whole) in texts.chain(query).chain(headers) {
        for name in text.arguments() {
            let (kind, optional) = known(name).ok_or_else(|| unknown(name).at(&[key]))?;
            if !kind.is_scalar() {
                return Err(Problem::NotScalar {
                    argument: name.clone(),
                }
                .at(&[key]));
            }
            if whole && optional {
                return Err(Problem::OptionalInPath {
                    argument: name.clone(),
                }
                .at(&[key]));
            }
        }
    }
    for (pointer, body) in &read.expect {
        let at = String::from(pointer.clone());
        let key = ["expect", at.as_str()];
        if !pointer.is_plain() {
            return Err(PLAIN.at(&key));
        }
        if body.has_all() {
            return Err(Problem::Verify {
                why: "name each argument by itself: what is shown has other members too",
            }
            .at(&key));
        }
        let mut missing = None;
        body.each_argument(&mut |name| {
            if known(name).is_none() {
                missing = Some(name.clone());
            }
        });
        if let Some(name) = missing {
            return Err(unknown(&name).at(&key));
        }
    }
    Ok(())
}

fn unknown(name: &ArgumentName) -> Problem {
    Problem::UnknownArgument {
        argument: name.clone(),
    }
}
