//! What can be wrong with a policy.

use alloc::{boxed::Box, string::String};
use core::{
    fmt::{self, Write as _},
    ops::Range,
};

use crate::{
    excerpt::excerpt,
    floor::PathError,
    id::{
        ArgumentName, CatalogueName, CredentialLabel, OwnedName, PolicyName, ToolName, ValueName,
    },
    json::JsonError,
    origin::{Origin, OriginError},
    policy::{Boundary, FORMAT},
    request::Method,
    template::TemplateError,
};

/// Why a policy file cannot be used: where, and what to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyError {
    /// Which policy.
    pub policy: PolicyName,
    /// The line, from 1.
    pub line: usize,
    /// From which byte of the text to which: a key, a value, or what is no TOML. Empty where it is about
    /// no one place.
    pub at: Range<usize>,
    /// The key, as a dotted path; `(file)` where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub problem: Box<Problem>,
}

impl core::error::Error for PolicyError {}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policy,
            line,
            key,
            problem,
            at: _,
        } = self;
        let said = alloc::format!("policy `{policy}`, line {line}, `{key}`: {problem}");
        // What stands in the file is in it, and the file may be anyone's until it is approved.
        said.chars().try_for_each(|character| {
            if character.is_control() {
                write!(f, "{}", character.escape_default())
            } else {
                f.write_char(character)
            }
        })
    }
}

/// Why a compiled policy cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CompiledError {
    /// A format that this version does not know.
    #[error("the compiled policy has format {found}; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: i64,
    },
    /// Not what the compiler writes.
    #[error("the compiled policy cannot be read: {0}")]
    Json(JsonError),
    /// It is inconsistent.
    #[error("the compiled policy is wrong at `{key}`: {problem}")]
    Rule {
        /// The key, as a dotted path.
        key: String,
        /// What is wrong.
        problem: Problem,
    },
}

impl From<JsonError> for CompiledError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

/// What is wrong in a policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A list of addresses is wrong.
    #[error("{0}")]
    Addresses(crate::address::AddressError),
    /// A tool reaches further than the sessions of its policy.
    #[error(
        "the tool reaches `{}`, and the sessions of this policy `{}`; nobody could call it, so \
         widen `session.boundary` or narrow the tool's", tool.as_str(), session.as_str()
    )]
    Boundary {
        /// How far the tool reaches.
        tool: Boundary,
        /// How far the sessions reach.
        session: Boundary,
    },
    /// An argument that no branch takes.
    #[error("no branch of the selector takes `{argument}`; add it to one, or remove it")]
    BranchNone {
        /// The argument.
        argument: ArgumentName,
    },
    /// A branch without an argument that every call needs.
    #[error("`{argument}` is in every call: the selector, or a part of the path; add it")]
    BranchWithout {
        /// The argument.
        argument: ArgumentName,
    },
    /// Members are counted of something that has none.
    #[error("members are counted of an argument of type `list` only")]
    BulkOfNoList,
    /// A group of words that is none.
    #[error(
        "a group is 1 to 64 words of at least two letters or digits: `add`, or `creat*` for all \
         that begin so"
    )]
    AskedBy,
    /// A body where the method has none.
    #[error("method {method} has no body; use POST, PUT or PATCH, or leave `body` out")]
    Body {
        /// The method.
        method: Method,
    },
    /// A bound that does not belong to the type.
    #[error("`{bound}` does not belong to type `{kind}`; leave it out")]
    BoundOfOtherType {
        /// The bound.
        bound: &'static str,
        /// The type.
        kind: &'static str,
    },
    /// Bounds that no value can meet, or too wide ones.
    #[error("the bounds are wrong: {why}")]
    Bounds {
        /// Why.
        why: &'static str,
    },
    /// A name or a value of a catalogue that no call could carry.
    #[error("entry `{name}` is empty, has a NUL or is longer than 8192 bytes")]
    CatalogueEntry {
        /// The name.
        name: String,
    },
    /// A date in a body.
    #[error("a date has no place in a json body; write it as a string")]
    Date,
    /// A domain that is none.
    #[error("`{domain}` is not a domain such as `example.test`; write it without scheme and path")]
    Domain {
        /// What the policy says.
        domain: String,
    },
    /// Nothing is listed.
    #[error("nothing is listed; name at least one")]
    Empty,
    /// The request goes to an origin whose address the floor does not admit.
    #[error(
        "the floor does not admit the address of `{origin}`; add it to `addresses`, as \
         [\"127.0.0.1/32\"] for loopback"
    )]
    FloorAddress {
        /// The origin.
        origin: Origin,
    },
    /// The request's method is not in the credential's floor.
    #[error(
        "method {method} is not in the floor of credential `{credential}`; add it to `methods`, or change the request"
    )]
    FloorMethod {
        /// The method.
        method: Method,
        /// The credential.
        credential: CredentialLabel,
    },
    /// The request's origin is not in the credential's floor.
    #[error(
        "origin `{origin}` is not in the floor of credential `{credential}`; add it to `origins`, or change the request"
    )]
    FloorOrigin {
        /// The origin.
        origin: Origin,
        /// The credential.
        credential: CredentialLabel,
    },
    /// The request's path is not in the credential's floor.
    #[error(
        "path `{path}` is not in the floor of credential `{credential}`; add it to `paths`, with \
         `{{}}` where an argument stands, or change the request"
    )]
    FloorPath {
        /// The path, with `{}` where an argument stands.
        path: String,
        /// The credential.
        credential: CredentialLabel,
    },
    /// A format that this version does not know.
    #[error("format {found} is not known; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: i64,
    },
    /// A name of a handoff's resource that is none.
    #[error(
        "the resource of a handoff is a name of `a-z 0-9 _ -`, and not `from`, `summary` or `task`"
    )]
    HandoffResource,
    /// A handoff that is to be trusted.
    #[error("a handoff is untrusted, whoever it claims to be from; leave `label` out")]
    HandoffTrusted,
    /// A header field that a policy may not set or use.
    #[error("header `{header}` {why}")]
    Header {
        /// The field.
        header: String,
        /// Why.
        why: &'static str,
    },
    /// A header's literal value has a character that no header value may have.
    #[error(
        "a header's value is visible ASCII without line breaks, and without a space at its ends"
    )]
    HeaderValue,
    /// A hint that says other than the risk.
    #[error("the hint says other than `risk`; leave it out, or correct the risk")]
    Hint,
    /// An argument stands where the host is.
    #[error(
        "`{text}` has an argument in scheme, host or port; where a request goes is written out literally"
    )]
    HostArgument {
        /// The text.
        text: String,
    },
    /// The policy is larger than a compiled policy may be.
    #[error("the policy is too large: {why}")]
    Large {
        /// Which limit.
        why: JsonError,
    },
    /// A key that belongs to another authority.
    #[error("`{key}` does not belong to authority `{authority}`; leave it out")]
    KeyOfOtherAuthority {
        /// The key.
        key: &'static str,
        /// The authority.
        authority: &'static str,
    },
    /// A key that must be there.
    #[error("`{key}` is missing; {what}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What to write.
        what: &'static str,
    },
    /// The name in the file is not the file's.
    #[error("the file says policy `{found}`; the file's name and `name` must be the same")]
    Name {
        /// What the file says.
        found: PolicyName,
    },
    /// Known, and not in this version.
    #[error("`{word}` is not in this version; write {instead}")]
    NotInThisVersion {
        /// The word.
        word: String,
        /// What there is.
        instead: &'static str,
    },
    /// What is external is computed from domains that are not there.
    #[error(
        "what is external follows from the operator's own domains; list them: `[own]` \
         `domains = [\"example.test\"]`"
    )]
    NoDomains,
    /// `optional` where nothing can be left out.
    #[error("`optional` belongs to an argument or to a member of an object; leave it out")]
    NotOptional,
    /// A list or an object where one text stands.
    #[error("`{argument}` is a list or an object; it can stand in the body only")]
    NotScalar {
        /// The argument.
        argument: ArgumentName,
    },
    /// `pass` on a tool that changes something.
    #[error(
        "`pass` is only for tools whose `risk` is \"read\"; write \"refuse\" or \"trusted_sinks\""
    )]
    OnTaintPass,
    /// An optional argument where there is no request without it.
    #[error(
        "`{argument}` is optional, and the path has no meaning without it; leave `optional` out"
    )]
    OptionalInPath {
        /// The argument.
        argument: ArgumentName,
    },
    /// An injected argument that is optional.
    #[error("an injected argument is always there; leave `optional` out")]
    OptionalInjected,
    /// An origin that is none.
    #[error("{0}")]
    Origin(OriginError),
    /// `recipients = "own"` without arguments that say to whom.
    #[error("say which arguments name the recipients: `computed.external = [\"to\"]`")]
    OwnRecipients,
    /// A number out of its range.
    #[error("must be {least} to {most}")]
    OutOfRange {
        /// Least.
        least: u32,
        /// Most.
        most: u32,
    },
    /// A path of a URL or a floor that is none.
    #[error("{0}")]
    Path(PathError),
    /// A payload argument that chooses where the effect goes.
    #[error(
        "payload argument `{argument}` stands in the path, where it chooses the target; a tool with \
         `on_taint = \"trusted_sinks\"` takes its path from trusted values only"
    )]
    PayloadInPath {
        /// The argument.
        argument: ArgumentName,
    },
    /// A name or value of a query that would have to be encoded.
    #[error(
        "`{text}` in the query: write names and literal values with letters, digits and `-._~` only"
    )]
    Query {
        /// The text.
        text: String,
    },
    /// A folder that cannot be shown in a session.
    #[error("`{path}` is not an absolute path without `.`, `..`, `//` and a slash at its end")]
    ReadOnlyPath {
        /// The path.
        path: String,
    },
    /// A release by words that are not there.
    #[error(
        "`asked` needs the words to ask in: `asked_by = [[\"delet*\", \"remov*\"], [\"file*\"]]`"
    )]
    ReleaseAsked,
    /// A role that an argument of this authority cannot have.
    #[error(
        "role `{role}` does not belong to authority `{authority}`: `payload` is one, `agent` can \
         be any, every other is `sink` or `identifier`"
    )]
    RoleOfOtherAuthority {
        /// The role.
        role: &'static str,
        /// The authority.
        authority: &'static str,
    },
    /// A file of rules that does not lie beside the policy.
    #[error(
        "`{}` is no file of rules; name one that lies beside the policy, as \"mail.cedar\"", excerpt(.file)
    )]
    RulesFile {
        /// What the policy says.
        file: String,
    },
    /// The operator's rules cannot be read.
    #[error("the rules in `{file}` cannot be read: {why}")]
    RulesUnread {
        /// Their file.
        file: String,
        /// Why.
        why: String,
    },
    /// A selector that is none.
    #[error("a selector is an enum of the agent's that no call leaves out")]
    Selector,
    /// A value of the selector without a branch.
    #[error("the selector's value `{value}` has no branch; every value needs exactly one")]
    SelectorMissing {
        /// The value.
        value: String,
    },
    /// A branch of a value that the selector has not.
    #[error("the selector has no value `{value}`; remove the branch, or add the value to `one_of`")]
    SelectorUnknown {
        /// The value.
        value: String,
    },
    /// `sink` says other than the authority.
    #[error(
        "`sink = {sink}` contradicts authority `{authority}`: every argument but a payload is a \
         sink; leave `sink` out, or change the authority"
    )]
    Sink {
        /// What the policy says.
        sink: bool,
        /// The authority.
        authority: &'static str,
    },
    /// A tool that cannot stream.
    #[error("{why}")]
    Stream {
        /// Why, and what to write.
        why: &'static str,
    },
    /// A sum of something that is no amount.
    #[error(
        "a sum is of an argument of type `integer` or `number` with `min` 0 or more, and at most a \
         number that is not negative"
    )]
    SumOfOther,
    /// The same thing twice in a list.
    #[error("`{what}` is listed twice")]
    Twice {
        /// What.
        what: String,
    },
    /// A template that is none.
    #[error("{0}")]
    Template(TemplateError),
    /// A text that is longer than it may be.
    #[error("the text has {found} bytes; at most {most} are allowed")]
    TextLength {
        /// How many it has.
        found: usize,
        /// How many it may have.
        most: usize,
    },
    /// Not TOML, or not of the form: what the parser says.
    #[error("{message}")]
    Toml {
        /// What it says.
        message: String,
    },
    /// The argument says another type than its value or set.
    #[error(
        "type or bounds differ from those of `{of}`; leave them out, they are taken from there"
    )]
    TypeDiffers {
        /// The value or set.
        of: String,
    },
    /// A read-back or a precondition that could not say anything.
    #[error("{why}")]
    Verify {
        /// Why, and what to write.
        why: &'static str,
    },
    /// A template names an argument that the tool has not.
    #[error(
        "`{argument}` is not an argument of this tool; add it under `arguments`, or correct the template"
    )]
    UnknownArgument {
        /// The argument.
        argument: ArgumentName,
    },
    /// An argument names a catalogue that the policy has not.
    #[error(
        "catalogue `{catalogue}` is unknown; add [catalogues.{catalogue}], or correct the name"
    )]
    UnknownCatalogue {
        /// The catalogue.
        catalogue: CatalogueName,
    },
    /// A tool names a credential that the policy has not.
    #[error(
        "credential `{credential}` is unknown; add [credentials.{credential}], or correct the label"
    )]
    UnknownCredential {
        /// The label.
        credential: CredentialLabel,
    },
    /// An argument names a set that the policy has not.
    #[error("owned set `{set}` is unknown; add [owned.{set}], or correct the name")]
    UnknownOwned {
        /// The set.
        set: OwnedName,
    },
    /// An argument names a value that the policy has not.
    #[error("value `{value}` is unknown; add [values.{value}], or correct the name")]
    UnknownValue {
        /// The value.
        value: ValueName,
    },
    /// An argument that no template uses.
    #[error(
        "argument `{argument}` is not used by the request; use it in url, headers or body, or remove it"
    )]
    UnusedArgument {
        /// The argument.
        argument: ArgumentName,
    },
    /// A URL that is none.
    #[error(
        "`{text}` is not a url; write scheme, host and path, such as `https://api.example.test/v1/notes/{{id}}`"
    )]
    Url {
        /// The text.
        text: String,
    },
    /// `value_carrying` where it says nothing, or too much.
    #[error(
        "`value_carrying` stands beside `consequential` only, and never with `deletion` or \
         `membership_change`: whose will those are is not said by their values"
    )]
    ValueCarrying,
    /// `value_carrying` in a list of classes that are gated.
    #[error("`value_carrying` says how a class is looked at, and is none to gate; leave it out")]
    ValueCarryingGated,
    /// A trusted workspace beside a tool whose results are anyone's words.
    #[error(
        "a trusted workspace would hand what one session reads with `{tool}`, whose result is \
         untrusted, to the next session as trusted; write `workspace = \"untrusted\"`"
    )]
    WorkspaceTrusted {
        /// The tool.
        tool: ToolName,
    },
}

/// A problem, and the path of keys that it is at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    pub(super) key: alloc::vec::Vec<String>,
    pub(super) problem: Problem,
}

impl Problem {
    pub(super) fn at(self, key: &[&str]) -> Fault {
        Fault {
            key: key.iter().map(|it| String::from(*it)).collect(),
            problem: self,
        }
    }
}

impl Fault {
    /// The same fault, seen from the table that holds this one.
    pub(super) fn under(mut self, key: &[&str]) -> Self {
        self.key
            .splice(0..0, key.iter().map(|it| String::from(*it)));
        self
    }
}

impl From<Fault> for CompiledError {
    fn from(fault: Fault) -> Self {
        Self::Rule {
            key: fault.key.join("."),
            problem: fault.problem,
        }
    }
}
