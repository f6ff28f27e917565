//! Read-backs in a policy: what is needed, what contradicts itself, and that nothing is converted.

use gate::{
    id::PolicyName,
    policy::{Look, Policy, Read, Verify},
    readback::{capture, shown, shown_by_command, told},
    record::Finding,
};

use crate::scene::json;

fn text(verify: &str) -> String {
    format!(
        r#"
format = 1
[credentials.api]
connector = "http"
[credentials.api.floor]
origins = ["https://api.example.test"]
methods = ["GET", "POST"]
paths = ["/v1/notes", "/v1/notes/{{}}"]
[tools.note]
description = "Writes a note."
credential = "api"
risk = "write"
[tools.note.request]
method = "POST"
url = "https://api.example.test/v1/notes"
body = {{ text = "{{text}}", page = "{{page}}", tags = "{{tags}}" }}
[tools.note.arguments]
text = {{ authority = "payload", type = "string" }}
page = {{ authority = "payload", type = "integer", optional = true }}
tags = {{ authority = "payload", type = "list", items = {{ type = "string" }}, optional = true }}
[tools.note.verify]
{verify}
"#
    )
}

fn compile(verify: &str) -> Result<Policy, String> {
    let name = PolicyName::parse("test").unwrap();
    Policy::compile(&name, &text(verify)).map_err(|error| error.to_string())
}

const GOOD: &str = r#"
url = "https://api.example.test/v1/notes/{id}?page={page}"
expect = { "/text" = "{text}", "/page" = "{page}", "/tags" = "{tags}", "/state/0" = 1 }
capture.id = { pointer = "/id", type = "integer", min = 1 }
"#;

#[test]
fn a_read_back_survives_its_compiled_form() {
    let policy = compile(GOOD).unwrap();
    assert_eq!(Policy::from_bytes(&policy.to_bytes()).unwrap(), policy);
    let verify = policy.tools()["note"].verify.as_ref().unwrap();
    assert_eq!((verify.tries, verify.delay_ms), (3, 250));
    assert!(!verify.needs_no_answer() && !verify.lock_on_mismatch);
}

#[test]
fn a_read_back_that_could_not_say_anything_is_refused_by_line_and_key() {
    let url = "url = \"https://api.example.test/v1/notes/{text}\"\n";
    for (verify, said) in [
        (
            url.into(),
            "`tools.note.verify.expect`: that a server answers verifies nothing",
        ),
        (format!("{url}expect = {{}}"), "verifies nothing"),
        (
            format!("{url}expect = {{ \"/x\" = \"{{other}}\" }}"),
            "`other` is not an argument",
        ),
        (format!("{url}expect = {{ \"/x/*\" = 1 }}"), "without `*`"),
        (
            format!("{url}expect = {{ \"/x\" = \"{{*}}\" }}"),
            "name each argument by itself",
        ),
        (format!("{url}expect = {{ \"x\" = 1 }}"), "is not a pointer"),
        (
            format!("{url}status = 404\nexpect = {{ \"/x\" = 1 }}"),
            "nothing to look at",
        ),
        (
            format!("{url}status = 100\nexpect = {{ \"/x\" = 1 }}"),
            "must be 200 to 499",
        ),
        (
            format!("{url}tries = 0\nexpect = {{ \"/x\" = 1 }}"),
            "must be 1 to 20",
        ),
        (
            format!("{url}delay_ms = 60001\nexpect = {{ \"/x\" = 1 }}"),
            "must be 0 to 60000",
        ),
        (
            format!("{url}method = \"POST\"\nexpect = {{ \"/x\" = 1 }}"),
            "unknown field `method`",
        ),
        (
            "url = \"https://other.example.test/v1/notes\"\nexpect = { \"/x\" = 1 }".into(),
            "is not in the floor",
        ),
        (
            "url = \"https://api.example.test/v2\"\nexpect = { \"/x\" = 1 }".into(),
            "is not in the floor",
        ),
        (
            "url = \"https://api.example.test/v1/notes/{page}\"\nexpect = { \"/x\" = 1 }".into(),
            "`page` is optional",
        ),
        (
            "url = \"https://api.example.test/v1/notes?t={tags}\"\nexpect = { \"/x\" = 1 }".into(),
            "can stand in the body only",
        ),
        (
            format!(
                "{url}expect = {{ \"/x\" = 1 }}\ncapture.text = {{ pointer = \"/t\", type = \
                 \"string\" }}"
            ),
            "`text` is listed twice",
        ),
        (
            format!(
                "{url}settles_ms = 5\nexpect = {{ \"/x\" = 1 }}\ncapture.id = {{ pointer = \
                 \"/t\", type = \"string\" }}"
            ),
            "what is in doubt has no answer",
        ),
        (
            format!("{url}headers.authorization = \"x\"\nexpect = {{ \"/x\" = 1 }}"),
            "authorization",
        ),
    ] {
        let why = compile(&verify).unwrap_err();
        assert!(why.contains(said), "{verify}\n{why}");
    }
}

#[test]
fn a_read_back_needs_get_on_the_floor() {
    let name = PolicyName::parse("test").unwrap();
    let text = text(GOOD).replace("\"GET\", ", "");
    let why = Policy::compile(&name, &text).unwrap_err().to_string();
    assert!(why.contains("method GET is not in the floor"), "{why}");
}

fn read(verify: &Verify) -> &Read {
    match &verify.look {
        Look::Read(read) => read,
        Look::Command(_) => panic!("{verify:?}"),
    }
}

fn arguments(text: &str) -> gate::request::Arguments {
    let gate::json::Value::Object(members) = json(text) else {
        panic!("{text}")
    };
    let named = |(name, value): (String, _)| (name.try_into().unwrap(), value);
    members.into_iter().map(named).collect()
}

#[test]
fn nothing_is_converted_between_a_call_and_what_is_shown() {
    let policy = compile(GOOD).unwrap();
    let verify = policy.tools()["note"].verify.as_ref().unwrap();
    let call = arguments(r#"{"text":"1","page":2,"tags":["a"]}"#);
    for (body, finding) in [
        (
            r#"{"text":"1","page":2,"tags":["a"],"state":[1],"more":0}"#,
            Finding::Verified,
        ),
        (
            r#"{"text":1,"page":2,"tags":["a"],"state":[1]}"#,
            Finding::Mismatched,
        ),
        (
            r#"{"text":"1","page":"2","tags":["a"],"state":[1]}"#,
            Finding::Mismatched,
        ),
        (
            r#"{"text":"1","page":2,"tags":["a","b"],"state":[1]}"#,
            Finding::Mismatched,
        ),
        (
            r#"{"text":"1","page":2,"tags":["a"],"state":[true]}"#,
            Finding::Mismatched,
        ),
        (
            r#"{"text":"1","page":2,"tags":["a"],"state":{"0":1}}"#,
            Finding::Verified,
        ),
        (
            r#"{"text":"1","text":"1","page":2,"tags":["a"],"state":[1]}"#,
            Finding::VerifierFailure,
        ),
        (
            r#"{"page":2,"tags":["a"],"state":[1]}"#,
            Finding::Mismatched,
        ),
        ("null", Finding::Mismatched),
        ("", Finding::VerifierFailure),
    ] {
        let shown = shown(read(verify), &call, 200, body.as_bytes());
        assert_eq!(shown.finding, finding, "{body}: {}", shown.why);
    }
    // What the call does not carry is expected nowhere.
    let call = arguments(r#"{"text":"1"}"#);
    let shown = shown(
        read(verify),
        &call,
        200,
        br#"{"text":"1","page":9,"state":[1]}"#,
    );
    assert_eq!(shown.finding, Finding::Verified);
}

#[test]
fn a_captured_value_has_its_type_and_bounds_or_is_none() {
    let policy = compile(GOOD).unwrap();
    let verify = policy.tools()["note"].verify.as_ref().unwrap();
    let call = arguments(r#"{"text":"x"}"#);
    assert_eq!(capture(verify, &call, br#"{"id":7}"#).unwrap().len(), 2);
    for answer in [
        r#"{"id":"7"}"#,
        r#"{"id":0}"#,
        r#"{"id":[7]}"#,
        "{}",
        "no json",
        "[7]",
    ] {
        let why = capture(verify, &call, answer.as_bytes()).unwrap_err();
        assert!(!why.to_string().contains('7'), "{why}");
    }
}

const COMMAND: &str = "command = [\"/usr/local/lib/has-note\", \"--strict\"]\n";

#[test]
fn a_program_that_verifies_survives_its_compiled_form_and_is_told_the_call_and_what_was_captured() {
    let text = format!(
        "{COMMAND}reads = [\"/srv/notes\"]\ntimeout_ms = 900\ntries = 2\n\
         capture.id = {{ pointer = \"/id\", type = \"integer\" }}"
    );
    let policy = compile(&text).unwrap();
    assert_eq!(Policy::from_bytes(&policy.to_bytes()).unwrap(), policy);
    let verify = policy.tools()["note"].verify.as_ref().unwrap();
    let Look::Command(command) = &verify.look else {
        panic!("{verify:?}")
    };
    assert_eq!(command.argv, ["/usr/local/lib/has-note", "--strict"]);
    assert_eq!(command.reads, ["/srv/notes"]);
    assert_eq!((command.timeout_ms, verify.tries), (900, 2));
    let call = arguments(r#"{"text":"x\n\"y"}"#);
    let all = capture(verify, &call, br#"{"id":7}"#).unwrap();
    let (name, _) = policy.tools().first_key_value().unwrap();
    assert_eq!(
        String::from_utf8(told(name, &all)).unwrap(),
        r#"{"arguments":{"id":7,"text":"x\n\"y"},"format":"custody-verify/1","tool":"note"}"#
    );
}

#[test]
fn a_program_that_verifies_says_one_of_four_things_and_none_of_its_own_words() {
    for (status, finding) in [
        (0, Finding::Verified),
        (1, Finding::Mismatched),
        (2, Finding::Unobservable),
        (3, Finding::VerifierFailure),
        (127, Finding::VerifierFailure),
        (255, Finding::VerifierFailure),
    ] {
        let shown = shown_by_command(status);
        assert_eq!(shown.finding, finding, "{status}");
        assert_eq!(shown.why.is_empty(), status == 0, "{status}");
    }
}

#[test]
fn a_program_that_verifies_is_named_whole_and_is_no_read_besides() {
    for (verify, said) in [
        (String::new(), "write `url`"),
        (format!("{COMMAND}{GOOD}"), "write `url`"),
        (format!("{COMMAND}status = 200"), "write `url`"),
        (format!("{GOOD}reads = [\"/srv\"]"), "write `url`"),
        ("command = []".into(), "by an absolute path"),
        ("command = [\"verify\"]".into(), "by an absolute path"),
        (
            "command = [\"/usr/bin/../sbin/x\"]".into(),
            "by an absolute path",
        ),
        ("command = [\"/\"]".into(), "by an absolute path"),
        (
            "command = [\"/bin/x\", \"a\\u0000b\"]".into(),
            "by an absolute path",
        ),
        (
            format!("command = [\"/bin/x\", {:?}]", "x".repeat(4_097)),
            "by an absolute path",
        ),
        (
            format!("{COMMAND}reads = [\"notes\"]"),
            "files and folders by absolute paths",
        ),
        (
            format!("{COMMAND}reads = [\"/\"]"),
            "files and folders by absolute paths",
        ),
        (format!("{COMMAND}timeout_ms = 0"), "must be 1 to 600000"),
        (
            format!(
                "{COMMAND}settles_ms = 5\ncapture.id = {{ pointer = \"/t\", type = \"string\" }}"
            ),
            "what is in doubt has no answer",
        ),
    ] {
        let why = compile(&verify).unwrap_err();
        assert!(why.contains(said), "{verify}\n{why}");
    }
}

fn precondition(precondition: &str) -> Result<Policy, String> {
    let name = PolicyName::parse("test").unwrap();
    let read = r#"
[tools.look]
description = "Reads a note."
credential = "api"
risk = "read"
[tools.look.request]
method = "GET"
url = "https://api.example.test/v1/notes/{text}"
[tools.look.arguments]
text = { authority = "payload", type = "string" }
[tools.other]
description = "Reads something that a note does not name."
credential = "api"
risk = "read"
[tools.other.request]
method = "GET"
url = "https://api.example.test/v1/notes/{id}"
[tools.other.arguments]
id = { authority = "payload", type = "string" }
"#;
    let text = text("").replace("[tools.note.verify]", precondition) + read;
    Policy::compile(&name, &text).map_err(|error| error.to_string())
}

#[test]
fn a_precondition_survives_its_compiled_form() {
    for it in [
        "precondition.if_match = \"v{text}\"",
        "[tools.note.precondition.last_read]\ntool = \"look\"",
        "[tools.note.precondition.last_read]\ntool = \"look\"\nfield = \"/v\"",
        "[tools.note.precondition.read_again]\nurl = \"https://api.example.test/v1/notes/{text}\"\n\
         expect = { \"/text\" = \"{text}\" }",
    ] {
        let it = it.replace(
            "precondition.if_match",
            "[tools.note.precondition]\nif_match",
        );
        let policy = precondition(&it).unwrap();
        assert_eq!(Policy::from_bytes(&policy.to_bytes()).unwrap(), policy);
    }
}

#[test]
fn a_precondition_that_holds_of_anything_is_refused() {
    for (it, said) in [
        ("[tools.note.precondition]\n", "exactly one of"),
        (
            "[tools.note.precondition]\nif_match = \"*\"",
            "a version that never changes",
        ),
        (
            "[tools.note.precondition]\nif_match = \"{page}\"",
            "every call carries",
        ),
        (
            "[tools.note.precondition]\nif_match = \"{x}\"",
            "`x` is not an argument",
        ),
        (
            "[tools.note.precondition.last_read]\ntool = \"note\"",
            "reads by GET",
        ),
        (
            "[tools.note.precondition.last_read]\ntool = \"other\"",
            "whose arguments",
        ),
        (
            "[tools.note.precondition.last_read]\ntool = \"none\"",
            "a tool of this policy",
        ),
        (
            "[tools.note.precondition.last_read]\ntool = \"look\"\nfield = \"/*/v\"",
            "without `*`",
        ),
        (
            "[tools.note.precondition.read_again]\nurl = \"https://api.example.test/v1/notes/x\"",
            "verifies nothing",
        ),
        (
            "[tools.note.request.headers]\nif-match = \"x\"\n[tools.note.precondition]\nif_match = \
             \"{text}\"",
            "is set by the precondition",
        ),
    ] {
        let why = precondition(it).unwrap_err();
        assert!(why.contains(said), "{it}\n{why}");
    }
}
