//! custodyd as a plain systemd unit, as it is shipped: Type=notify, Delegate=yes, LoadCredential=.
//!
//! One machine with systemd as its pid 1 is booted, once; `fixtures/systemd/steps.sh` runs in it,
//! and each test here judges a part of what it left.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use std::collections::BTreeMap;

use custody_tests::{
    evidence::{
        Evidence,
        row::{Class, Isolation, LegOutcome},
        status::{MECHANISMS_MIN, Status},
    },
    host::programs_folder,
    nspawn::{
        self,
        machine::{Machine, Step},
        rootfs::Source,
    },
    register,
    witness::record::{self, Seen},
};

/// How long the machine may take: 25 s were measured on two busy cores.
const LIMIT: Duration = Duration::from_secs(300);

/// The credential of the unit.
const TOKEN: &str = "fake-token-for-tests-of-the-unit";

/// A folder where the steps look for their files.
const SHARE: &str = "/usr/share/custody-test";

/// Hooks of one group of cgroups, and the groups.
const PINS: usize = 9 * 3;

/// What the machine left.
struct Report {
    /// The machine's exit status: what the last step ended with.
    code: Option<i32>,
    steps: BTreeMap<String, Step>,
    accepted: Vec<Seen>,
    rejected: Vec<Seen>,
    evidence: String,
    said: String,
}

impl Report {
    fn step(&self, name: &str) -> &Step {
        match self.steps.get(name) {
            Some(step) => step,
            None => panic!("step `{name}` was not made: {}", self.said),
        }
    }

    /// The output of a step that ended with 0.
    fn out(&self, name: &str) -> &str {
        let step = self.step(name);
        assert_eq!(step.code, 0, "{name}: {}{}", step.out, step.err);
        &step.out
    }

    /// What the agent says of each of its steps: (step, outcome, detail).
    fn agent(&self, name: &str) -> Vec<(String, String, String)> {
        let parse = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| value[key].as_str().unwrap().to_owned();
            (text("step"), text("outcome"), text("detail"))
        };
        self.out(name).lines().map(parse).collect()
    }
}

/// The one machine's report; none, said why, where it cannot be booted here.
fn report() -> Option<&'static Report> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    if let Some(missing) = missing() {
        println!("not attempted: needs {missing}");
        return None;
    }
    let made = REPORT.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    Some(made.as_ref().unwrap_or_else(|error| panic!("{error}")))
}

fn missing() -> Option<String> {
    nspawn::missing()
        .or_else(|| programs_folder().err().map(|error| error.to_string()))
        .or_else(|| Source::of_host().err().map(|error| format!("{error:#}")))
}

fn make() -> anyhow::Result<Report> {
    let guest = guest();
    let root = Source::of_host()?.root(&guest)?;
    let machine = Machine::new(&guest)?;
    furnish(&machine)?;
    let status = machine.boot(&root, LIMIT)?;
    Ok(Report {
        code: status.code(),
        steps: machine.steps()?,
        accepted: record::read(&machine.result("accepted"))?,
        rejected: record::read(&machine.result("rejected"))?,
        evidence: fs::read_to_string(machine.result("evidence.json")).unwrap_or_default(),
        said: machine.said(),
    })
}

/// `guest` in cargo's target folder.
fn guest() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guest")
}

fn source() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// What a package and an administrator would put on it, and the steps.
fn furnish(machine: &Machine) -> anyhow::Result<()> {
    let read = |path: &str| fs::read_to_string(source().join(path));
    let programs = programs_folder()?;
    machine.install(&programs, "/usr/lib/custody")?;
    machine.install(&programs.join("session"), "/usr/lib/custody/session")?;
    let half = register::check(&source())?;
    let half = serde_json::to_string(&half)?;
    let units = "/etc/systemd/system";
    for (path, mode, text) in [
        (
            "/usr/lib/sysusers.d/custody.conf".to_owned(),
            0o644,
            read("daemon/supervisor/systemd/custody.conf")?,
        ),
        (
            "/usr/lib/systemd/system/custodyd.service".to_owned(),
            0o644,
            read("daemon/supervisor/systemd/custodyd.service")?,
        ),
        (
            format!("{units}/custodyd.service.d/credential.conf"),
            0o644,
            read("fixtures/systemd/credential.conf")?,
        ),
        ("/etc/credstore/demo".to_owned(), 0o600, TOKEN.to_owned()),
        (
            "/etc/custody/custodyd.toml".to_owned(),
            0o644,
            read("fixtures/systemd/custodyd.toml")?,
        ),
        (
            "/etc/custody/policies/demo.toml".to_owned(),
            0o644,
            read("fixtures/policies/demo.toml")?,
        ),
        (
            format!("{units}/custody-test.service"),
            0o644,
            read("fixtures/systemd/custody-test.service")?,
        ),
        (
            format!("{SHARE}/steps.sh"),
            0o644,
            read("fixtures/systemd/steps.sh")?,
        ),
        (
            format!("{SHARE}/agent.py"),
            0o644,
            read("fixtures/systemd/agent.py")?,
        ),
        (
            format!("{SHARE}/notes.json"),
            0o644,
            read("fixtures/demo/notes.json")?,
        ),
        (format!("{SHARE}/register.json"), 0o644, half),
    ] {
        machine.write(&path, mode, &text)?;
    }
    machine.enable("custody-test.service", "multi-user.target")
}

#[test]
#[serial_test::file_serial(custody)]
fn the_unit_is_valid_and_its_users_are_made_by_sysusers() {
    let Some(report) = report() else { return };
    let users = report.out("users");
    assert_eq!(users.lines().count(), 4, "{users}");
    assert!(
        users
            .lines()
            .all(|user| user.ends_with(":/usr/sbin/nologin")),
        "{users}"
    );
    let verified = report.step("verify-unit");
    assert_eq!((verified.code, verified.err.as_str()), (0, ""));
}

#[test]
#[serial_test::file_serial(custody)]
fn without_its_credential_the_unit_does_not_start_says_what_to_add_and_leaves_nothing() {
    let Some(report) = report() else { return };
    assert_ne!(report.step("start-without-credential").code, 0);
    let journal = report.out("journal-without-credential");
    let says = "add `LoadCredential=demo:";
    assert!(journal.contains(says), "{journal}");
    assert!(!journal.contains("hooks are attached"), "{journal}");
    assert_eq!(report.out("left-without-credential"), "");
}

#[test]
#[serial_test::file_serial(custody)]
fn systemd_is_told_ready_when_the_service_answers_and_everything_is_below_its_own_cgroup() {
    let Some(report) = report() else { return };
    report.out("start");
    // The next command after `systemctl start`, without waiting.
    assert!(report.out("status").contains("you may use: demo"));
    assert_eq!(report.out("is-active"), "active\n");
    let show = report.out("show");
    for line in [
        "Type=notify",
        "NotifyAccess=main",
        "Delegate=yes",
        "SubState=running",
        "NRestarts=0",
        "ControlGroup=/system.slice/custodyd.service",
    ] {
        assert!(show.lines().any(|it| it == line), "{line}: {show}");
    }
    let cgroups = report.out("cgroups");
    for group in [
        "custody/agents",
        "custody/services/gate-",
        "custody/services/vault-",
        "custody/services/control-",
        "custody/workers/resolver-",
    ] {
        assert!(cgroups.contains(group), "{group}: {cgroups}");
    }
    // A mount namespace of its own would take pins and workspaces from it.
    let namespaces: Vec<&str> = report.out("namespaces").lines().collect();
    assert_eq!(namespaces.len(), 2);
    assert_eq!(namespaces[0], namespaces[1]);
    assert_eq!(report.out("pins").lines().count(), PINS);
}

#[test]
#[serial_test::file_serial(custody)]
fn every_layer_of_a_session_is_full_under_the_unit() {
    let Some(report) = report() else { return };
    report.out("layers");
    let said = &report.step("layers").err;
    let weak: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(": layer "))
        .filter(|line| !line.ends_with(": full") && !line.ends_with("id_map: not needed"))
        .collect();
    assert!(weak.is_empty(), "{weak:?}");
    for layer in ["cgroup_inet", "cgroup_unix", "landlock", "seccomp"] {
        assert!(said.contains(&format!("layer {layer}: full")), "{said}");
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn the_demos_calls_have_the_effects_that_were_allowed_and_no_other() {
    let Some(report) = report() else { return };
    let agent = report.agent("agent");
    let calls: Vec<(&str, &str)> = agent
        .iter()
        .filter(|(step, _, _)| step.contains('_'))
        .map(|(step, outcome, _)| (step.as_str(), outcome.as_str()))
        .collect();
    assert_eq!(
        calls,
        [
            ("publish_page", "allowed"),
            ("read_note", "allowed"),
            ("send_message", "refused"),
            ("publish_page", "refused"),
            ("send_message", "allowed"),
        ]
    );
    for (step, rule) in [("send_message", "trusted_value"), ("publish_page", "taint")] {
        let refused = |(it, outcome, detail): &&(String, String, String)| {
            it == step && outcome == "refused" && detail == rule
        };
        assert_eq!(agent.iter().filter(refused).count(), 1, "{agent:?}");
    }
    // The judge is the service's own record; `again` came after custodyd was killed.
    let effects: Vec<&str> = report
        .accepted
        .iter()
        .filter(|seen| seen.effect)
        .map(|seen| seen.target.as_str())
        .collect();
    assert_eq!(
        effects,
        ["/v1/pages/status/publish", "/v1/messages", "/v1/messages"]
    );
    assert!(!report.accepted.iter().any(|seen| seen.carries("outsider")));
    assert!(report.rejected.is_empty(), "{:?}", report.rejected);
    assert!(report.out("ledger").contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn what_is_reached_outside_is_refused_in_a_session_and_by_the_hooks_alone() {
    let Some(report) = report() else { return };
    let outcomes = |name: &str| -> Vec<(String, String, String)> {
        let doors = ["tcp", "hostile path"];
        let mut said = report.agent(name);
        said.retain(|(step, _, _)| doors.contains(&step.as_str()));
        assert_eq!(said.len(), doors.len(), "{name}");
        said
    };
    let outside = outcomes("outside");
    assert!(outside.iter().all(|it| it.1 == "REACHED"), "{outside:?}");
    for name in ["agent", "hooks-alone"] {
        let refused = outcomes(name);
        let by_hook = |it: &(String, String, String)| it.1 == "refused" && it.2 == "EPERM";
        assert!(refused.iter().all(by_hook), "{name}: {refused:?}");
    }
    let agent = report.agent("agent");
    assert!(!agent.iter().any(|it| it.1 == "REACHED"), "{agent:?}");
    for what in ["credential file", "unit's credential"] {
        assert!(
            agent
                .iter()
                .any(|it| it.0 == what && it.1 == "refused" && it.2 == "ENOENT"),
            "{what}: {agent:?}"
        );
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn killed_it_leaves_no_session_and_closed_hooks_and_systemd_starts_it_again() {
    let Some(report) = report() else { return };
    let killed = report.out("killed");
    let lines = |begin: &str| killed.lines().filter(|it| it.starts_with(begin)).count();
    assert!(killed.contains(" demo "), "the session ran: {killed}");
    assert_eq!(lines("process "), 0, "{killed}");
    assert_eq!(lines("agent "), 0, "{killed}");
    assert_eq!(lines("pin "), PINS, "{killed}");
    assert_eq!(lines("state auto-restart"), 1, "{killed}");
    assert_eq!(lines("client 125"), 1, "{killed}");
    report.out("restarted");
    assert_eq!(report.out("pins-again"), report.out("pins"));
    let again = report.agent("again");
    assert!(
        again.iter().any(|it| it.1 == "allowed"),
        "a call after the restart: {again:?}"
    );
    assert!(report.out("ledger-again").contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn the_five_attempts_are_refused_under_systemd() {
    let Some(report) = report() else { return };
    let bypass = report.step("bypass");
    println!("{}", bypass.out);
    assert_eq!(bypass.code, 0, "{}{}", bypass.out, bypass.err);
    assert_eq!(report.code, Some(0), "the machine's exit status");
    let evidence: Evidence = serde_json::from_str(&report.evidence).unwrap();
    for row in &evidence.attempts {
        assert!(row.as_expected, "{}: {}", row.id, row.outcome);
        assert!(row.reach.holds && row.twin.holds, "{}", row.id);
    }
    let e = &evidence.e_status;
    for class in Class::ALL {
        let refused = e.mechanisms.get(class.name()).map_or(0, |it| it.len());
        assert!(refused >= MECHANISMS_MIN, "{class}: {refused}");
    }
    assert_ne!(e.status, Status::Fail, "{:?}", e.because);
    // Where bpf(2) is filtered, hooks let everything through and nobody says so.
    for hook in ["cgroup_inet", "cgroup_unix"] {
        let alone = evidence
            .attempts
            .iter()
            .flat_map(|row| &row.legs)
            .filter(|leg| leg.run == Isolation::Only && leg.layer == hook);
        let outcomes: Vec<LegOutcome> = alone.map(|leg| leg.outcome).collect();
        assert!(!outcomes.is_empty(), "{hook}");
        assert!(
            outcomes.iter().all(|it| *it == LegOutcome::Refused),
            "{hook}: {outcomes:?}"
        );
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn stopped_it_leaves_no_process_cgroup_pin_or_mount_and_a_ledger_that_verifies() {
    let Some(report) = report() else { return };
    assert_eq!(report.out("before"), "");
    report.out("stop");
    assert_eq!(report.out("left"), "");
    assert!(report.out("ledger-offline").contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn the_journal_has_the_ledgers_heads_and_denials_that_steer_no_terminal() {
    let Some(report) = report() else { return };
    let journal = report.out("journal");
    let raw = |c: char| c.is_control() && c != '\n';
    assert!(!journal.contains(raw), "{journal:?}");
    // A field is quoted once more, which doubles each backslash.
    let plain = journal.replace(r"\\", r"\");
    let denied = |parts: &[&str]| {
        let mut lines = plain.lines().filter(|line| line.contains(" denied who="));
        let found = lines.any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?}: {plain}");
    };
    denied(&[
        "session ",
        r#"comm="\x1b[2J\x07\nname""#,
        r#"hook="connect_unix""#,
        r#"to="unix /run/lure/\x1b]0;owned\x07\nhttps""#,
    ]);
    denied(&[r#"hook="sock_create""#, r#"to="family 2 tcp""#]);
    for line in report.out("ledger-offline").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [chain @ ("decisions" | "receipts"), .., position, digest] = words.as_slice() else {
            continue;
        };
        let head = format!("ledger head chain=\"{chain}\" position={position} digest={digest}");
        assert!(journal.contains(&head), "{head}: {journal}");
    }
    for (name, step) in &report.steps {
        let leaks = step.out.contains(TOKEN) || step.err.contains(TOKEN);
        assert!(!leaks, "the credential stands in the output of `{name}`");
    }
    let security = report.out("security");
    println!("{}", security.lines().last().unwrap_or_default());
}
