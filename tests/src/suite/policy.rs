//! The policy of the suite's sessions: one tool for each way in that an attempt tries.

use std::{net::SocketAddr, path::Path};

use custody_wire::profile::Profile;

/// Its name.
pub(super) const NAME: &str = "bypass";

/// The trusted value that the application supplies.
pub(super) const RECIPIENT: &str = "recipient";

/// The credential's label.
pub(super) const CREDENTIAL: &str = "service";

/// The policy, for the witness at `service`, with `programs` shown to the sessions: an agent can
/// bring any program, ours among them.
pub(super) fn text(service: SocketAddr, programs: &Path, profile: Profile) -> String {
    let reflecting = REFLECTING.map(|(name, description)| {
        REFLECTS
            .replace("@NAME@", name)
            .replace("@DESCRIPTION@", description)
    });
    [TEXT, &reflecting.concat()]
        .concat()
        .replace("@PROFILE@", profile.as_str())
        .replace("@SERVICE@", &service.to_string())
        .replace("\"@PROGRAMS@\"", &format!("{:?}", programs))
}

/// Tools that have a text sent back, with everything that came along. One request, three names: in
/// the reach arms each name is a careless program of its own.
const REFLECTING: [(&str, &str); 3] = [
    (
        "reflect",
        "Has a text sent back, with everything that came along.",
    ),
    ("reflect_held", "The same, for one whose answers are cut."),
    ("reflect_pin", "The same, for one whose secret is short."),
];

const REFLECTS: &str = r#"
[tools.@NAME@]
description = "@DESCRIPTION@"
credential = "service"
risk = "write"
result = "trusted"
on_taint = "trusted_sinks"

[tools.@NAME@.request]
method = "POST"
url = "http://@SERVICE@/v1/reflect"
body = { text = "{text}" }
timeout_ms = 10000

[tools.@NAME@.arguments.text]
authority = "payload"
type = "string"
max_length = 500
"#;

const TEXT: &str = r#"format = 1
name = "bypass"

[session]
profile = "@PROFILE@"
network = "sealed"
mounts = { read_only = ["@PROGRAMS@"] }

[values.recipient]
type = "email"

[credentials.service]
connector = "http"

[credentials.service.floor]
origins = ["http://@SERVICE@"]
methods = ["GET", "POST"]
paths = [
    "/v1/messages",
    "/v1/notes/{}",
    "/v1/notes/{}/append",
    "/v1/redirect",
    "/v1/reflect",
    "/v1/tokens",
]
addresses = ["127.0.0.1/32"]

[tools.send_message]
description = "Sends a message to the recipient of this session."
credential = "service"
risk = "write"
result = "trusted"
on_taint = "trusted_sinks"

[tools.send_message.request]
method = "POST"
url = "http://@SERVICE@/v1/messages"
body = { to = "{to}", text = "{text}" }
timeout_ms = 10000

[tools.send_message.arguments.to]
authority = "verified"
value = "recipient"

[tools.send_message.arguments.text]
authority = "payload"
type = "string"
max_length = 2000

[tools.read_note]
description = "Reads a note."
credential = "service"
risk = "read"
idempotent = true
result = "untrusted"
on_taint = "pass"

[tools.read_note.request]
method = "GET"
url = "http://@SERVICE@/v1/notes/{note}"
timeout_ms = 10000

[tools.read_note.arguments.note]
authority = "payload"
type = "string"
max_length = 500

[tools.reflect_as]
description = "Has what came along sent back in another form."
credential = "service"
risk = "read"
result = "trusted"
on_taint = "pass"

[tools.reflect_as.request]
method = "GET"
url = "http://@SERVICE@/v1/reflect?as={form}"
timeout_ms = 10000

[tools.reflect_as.arguments.form]
authority = "payload"
type = "string"
max_length = 40

[tools.append_note]
description = "Appends to a note."
credential = "service"
risk = "write"
result = "trusted"

[tools.append_note.request]
method = "POST"
url = "http://@SERVICE@/v1/notes/{note}/append"
timeout_ms = 10000

[tools.append_note.arguments.note]
authority = "payload"
type = "string"
max_length = 500

[tools.go_on]
description = "Has the service say where to go on."
credential = "service"
risk = "write"
result = "trusted"

[tools.go_on.request]
method = "POST"
url = "http://@SERVICE@/v1/redirect?to={to}"
timeout_ms = 10000

[tools.go_on.arguments.to]
authority = "payload"
type = "string"
max_length = 500

[tools.mint_token]
description = "Has the service make a token."
credential = "service"
risk = "write"
result = "trusted"

[tools.mint_token.request]
method = "POST"
url = "http://@SERVICE@/v1/tokens"
timeout_ms = 10000
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use gate::{id::PolicyName, policy::Policy};

    #[test]
    fn the_suites_policy_is_one() {
        for profile in Profile::ALL {
            let service = ([127, 0, 0, 1], 18080).into();
            let text = text(service, Path::new("/opt/custody"), profile);
            let name = PolicyName::parse(NAME).unwrap();
            let policy = Policy::compile(&name, &text).unwrap();
            assert_eq!(policy.tools().len(), 9);
        }
    }
}
