//! custodyd as a plain systemd unit, as it is shipped: Type=notify, Delegate=yes, LoadCredential=.
//!
//! One machine with systemd as its pid 1 is booted, once; `fixtures/systemd/steps.sh` runs in it,
//! and each test here judges a part of what it left.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use custody_tests::{
    evidence::{
        row::{Class, Isolation, LegOutcome},
        status::{MECHANISMS_MIN, Status},
    },
    nspawn::{
        machine::Machine,
        rootfs::Source,
        unit::{self, Deed, Report, TOKEN},
    },
};

/// Hooks of one group of cgroups, and the groups.
const PINS: usize = 12 * 3;

/// The one machine's report; none, said why, where it cannot be booted here.
#[expect(clippy::print_stdout, reason = "libtest says whose output it is")]
#[expect(clippy::panic, reason = "without the machine each test has failed")]
fn report() -> Option<&'static Report> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    if let Some(missing) = unit::missing() {
        println!("not attempted: needs {missing}");
        return None;
    }
    let made = REPORT
        .get_or_init(|| unit::report(&source(), &guest()).map_err(|error| format!("{error:#}")));
    match made {
        Ok(report) => Some(report),
        Err(error) => panic!("{error}"),
    }
}

/// The tree.
fn source() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// `guest` in cargo's target folder.
fn guest() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guest")
}

/// The two doors that are tried everywhere.
fn doors(deeds: Vec<Deed>) -> Vec<Deed> {
    let is_door = |deed: &Deed| matches!(deed.step.as_str(), "tcp" | "hostile path");
    deeds.into_iter().filter(is_door).collect()
}

#[test]
#[serial_test::file_serial(custody)]
fn the_unit_is_valid_and_its_users_are_made_by_sysusers() {
    let Some(report) = report() else { return };
    let users: Vec<&str> = report.out("users").unwrap().lines().collect();
    // One for each `[users]` of custodyd.toml.
    let names: Vec<&str> = users
        .iter()
        .filter_map(|user| user.split(':').next()?.strip_prefix("custody-"))
        .collect();
    assert_eq!(names, ["control", "gate", "resolver", "review", "vault"]);
    let cannot_log_in = |user: &&str| user.ends_with(":/usr/sbin/nologin");
    assert!(users.iter().all(cannot_log_in), "{users:?}");
    let verified = report.step("verify-unit").unwrap();
    assert_eq!((verified.code, verified.err.as_str()), (0, ""));
}

#[test]
#[serial_test::file_serial(custody)]
fn without_its_credential_the_unit_does_not_start_says_what_to_add_and_leaves_nothing() {
    let Some(report) = report() else { return };
    assert_ne!(report.step("start-without-credential").unwrap().code, 0);
    let journal = report.out("journal-without-credential").unwrap();
    assert!(journal.contains("add `LoadCredential=demo:"), "{journal}");
    assert!(!journal.contains("hooks are attached"), "{journal}");
    // systemd tries again, and keeps the unit's own folder for it (RuntimeDirectoryPreserve=).
    let left = report.out("left-without-credential").unwrap();
    assert!(matches!(left, "" | "/run/custody\n"), "{left}");
}

#[test]
#[serial_test::file_serial(custody)]
fn systemd_is_told_ready_when_the_service_answers_and_all_is_in_the_units_cgroup() {
    let Some(report) = report() else { return };
    report.out("start").unwrap();
    // The next command after `systemctl start`, without waiting.
    let status = report.out("status").unwrap();
    assert!(status.contains("you may use: demo"), "{status}");
    assert_eq!(report.out("is-active").unwrap(), "active\n");
    let show: BTreeSet<&str> = report.out("show").unwrap().lines().collect();
    for line in [
        "ControlGroup=/system.slice/custodyd.service",
        "Delegate=yes",
        "NRestarts=0",
        "NotifyAccess=main",
        "SubState=running",
        "Type=notify",
    ] {
        assert!(show.contains(line), "{line}: {show:?}");
    }
    let cgroups = report.out("cgroups").unwrap();
    for group in [
        "custody/agents",
        "custody/services/control-",
        "custody/services/gate-",
        "custody/services/vault-",
        "custody/workers/resolver-",
    ] {
        assert!(cgroups.contains(group), "{group}: {cgroups}");
    }
    // A mount namespace of its own would take pins and workspaces from it.
    let namespaces: Vec<&str> = report.out("namespaces").unwrap().lines().collect();
    assert_eq!(namespaces.len(), 2);
    assert_eq!(namespaces[0], namespaces[1]);
    assert_eq!(report.out("pins").unwrap().lines().count(), PINS);
}

#[test]
#[serial_test::file_serial(custody)]
fn every_layer_of_a_session_is_full_under_the_unit() {
    let Some(report) = report() else { return };
    report.out("layers").unwrap();
    let said = &report.step("layers").unwrap().err;
    let layers: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once("layer ").map(|(_, layer)| layer))
        .collect();
    for layer in ["cgroup_inet", "cgroup_unix", "landlock", "seccomp", "uid"] {
        assert!(layers.contains(&&*format!("{layer}: full")), "{layers:?}");
    }
    let weak: Vec<_> = layers
        .iter()
        .filter(|layer| !layer.ends_with(": full") && **layer != "id_map: not needed")
        // What this machine's kernel or hierarchy does not give, and `standard` does without.
        .filter(|layer| !layer.starts_with("bpf_lsm: ") && !layer.starts_with("cgroup_limits: "))
        .collect();
    assert!(weak.is_empty(), "{weak:?}");
}

#[test]
#[serial_test::file_serial(custody)]
fn a_workspace_is_the_callers_outside_and_the_agents_inside_and_gets_no_setuid_file() {
    let Some(report) = report() else { return };
    let inside = report.out("workspace").unwrap();
    assert_eq!(inside, "/var/tmp/work\nagent\nrefused\n");
    let outside = report.out("workspace-outside").unwrap();
    assert_eq!(outside, "/var/tmp/work/file 1000 644\n");
}

#[test]
#[serial_test::file_serial(custody)]
fn the_demos_calls_have_the_effects_that_were_allowed_and_no_other() {
    let Some(report) = report() else { return };
    let deeds = report.deeds("agent").unwrap();
    let calls: Vec<(&str, &str)> = deeds
        .iter()
        .filter(|deed| deed.step.contains('_'))
        .map(|deed| (deed.step.as_str(), deed.outcome.as_str()))
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
    let rules: Vec<&str> = deeds
        .iter()
        .filter(|deed| deed.step.contains('_') && deed.outcome == "refused")
        .map(|deed| deed.detail.as_str())
        .collect();
    assert_eq!(rules, ["trusted_value", "taint"]);
    // The judge is the service's own record. The last message is from after custodyd was killed.
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
    assert_eq!(report.rejected, []);
    assert!(report.out("ledger").unwrap().contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn what_is_reached_outside_is_refused_in_a_session_and_by_the_hooks_alone() {
    let Some(report) = report() else { return };
    let outside = doors(report.deeds("outside").unwrap());
    assert_eq!(outside.len(), 2);
    assert!(
        outside.iter().all(|deed| deed.outcome == "REACHED"),
        "{outside:?}"
    );
    for name in ["agent", "hooks-alone"] {
        let tried = doors(report.deeds(name).unwrap());
        assert_eq!(tried.len(), 2, "{name}");
        let is_refused = |deed: &Deed| deed.outcome == "refused" && deed.detail == "EPERM";
        assert!(tried.iter().all(is_refused), "{name}: {tried:?}");
    }
    let deeds = report.deeds("agent").unwrap();
    assert!(
        deeds.iter().all(|deed| deed.outcome != "REACHED"),
        "{deeds:?}"
    );
    for file in ["credential file", "unit's credential"] {
        let is_absent = |deed: &Deed| deed.step == file && deed.detail == "ENOENT";
        assert!(deeds.iter().any(is_absent), "{file}: {deeds:?}");
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn killed_it_leaves_no_session_and_closed_hooks_and_systemd_starts_it_again() {
    let Some(report) = report() else { return };
    let killed = report.out("killed").unwrap();
    let lines = |begin: &str| killed.lines().filter(|it| it.starts_with(begin)).count();
    assert!(killed.contains(" demo "), "a session ran: {killed}");
    assert_eq!(lines("process "), 0, "{killed}");
    assert_eq!(lines("agent "), 0, "{killed}");
    assert_eq!(lines("pin "), PINS, "{killed}");
    assert_eq!(lines("state auto-restart"), 1, "{killed}");
    assert_eq!(lines("client 125"), 1, "{killed}");
    report.out("restarted").unwrap();
    let pins = |name: &str| -> BTreeSet<&str> { report.out(name).unwrap().lines().collect() };
    assert_eq!(pins("pins-again"), pins("pins"));
    let again = report.deeds("again").unwrap();
    assert!(
        again.iter().any(|deed| deed.outcome == "allowed"),
        "{again:?}"
    );
    assert!(report.out("ledger-again").unwrap().contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn the_five_attempts_are_refused_under_systemd() {
    let Some(report) = report() else { return };
    let bypass = report.step("bypass").unwrap();
    println!("{}", bypass.out);
    assert_eq!(bypass.code, 0, "{}{}", bypass.out, bypass.err);
    assert_eq!(report.code, Some(0), "the machine's exit status");
    let evidence = report.evidence().unwrap();
    for row in &evidence.attempts {
        assert!(row.as_expected, "{}: {}", row.id, row.outcome);
        assert!(row.reach.holds && row.twin.holds, "{}", row.id);
    }
    let e = &evidence.e_status;
    for class in Class::ALL {
        let refused = e.mechanisms.get(class.name()).map_or(0, BTreeSet::len);
        assert!(refused >= MECHANISMS_MIN, "{class}: {refused}");
    }
    assert_ne!(e.status, Status::Fail, "{:?}", e.because);
    // Where bpf(2) is filtered, hooks could let everything through and nobody would say so.
    for hook in ["cgroup_inet", "cgroup_unix"] {
        let alone: Vec<LegOutcome> = evidence
            .attempts
            .iter()
            .flat_map(|row| &row.legs)
            .filter(|leg| leg.run == Isolation::Only && leg.layer == hook)
            .map(|leg| leg.outcome)
            .collect();
        assert!(!alone.is_empty(), "no run with {hook} alone");
        assert!(
            alone.iter().all(|outcome| *outcome == LegOutcome::Refused),
            "{hook}: {alone:?}"
        );
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn stopped_it_leaves_no_process_cgroup_pin_or_mount_and_a_ledger_that_verifies() {
    let Some(report) = report() else { return };
    assert_eq!(report.out("before").unwrap(), "");
    report.out("stop").unwrap();
    assert_eq!(report.out("left").unwrap(), "");
    assert!(report.out("ledger-offline").unwrap().contains("good"));
}

#[test]
#[serial_test::file_serial(custody)]
fn the_journal_has_the_ledgers_heads_and_denials_that_steer_no_terminal() {
    let Some(report) = report() else { return };
    let journal = report.out("journal").unwrap();
    assert!(
        !journal.contains(|c: char| c.is_control() && c != '\n'),
        "{journal:?}"
    );
    // A field is quoted once more, which doubles each backslash.
    let plain = journal.replace(r"\\", r"\");
    for parts in [
        [
            r#"who="session "#,
            r#"comm="\x1b[2J\x07\nname" hook="connect_unix""#,
            r#"to="unix /run/lure/\x1b]0;owned\x07\nhttps""#,
        ],
        [
            r#"who="cgroup "#,
            r#"hook="sock_create""#,
            r#"to="family 2 tcp""#,
        ],
    ] {
        let mut denials = plain.lines().filter(|line| line.contains(" denied "));
        assert!(
            denials.any(|line| parts.iter().all(|part| line.contains(part))),
            "{parts:?}: {plain}"
        );
    }
    for line in report.out("ledger-offline").unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [chain @ ("decisions" | "receipts"), .., position, digest] = words.as_slice() {
            let head = format!("ledger head chain=\"{chain}\" position={position} digest={digest}");
            assert!(journal.contains(&head), "{head}: {journal}");
        }
    }
    let security = report.out("security").unwrap();
    println!("{}", security.lines().last().unwrap_or_default());
}

#[test]
#[serial_test::file_serial(custody)]
fn the_credential_stands_in_nothing_that_was_said() {
    let Some(report) = report() else { return };
    // The service knew the caller by it.
    assert!(
        report
            .accepted
            .iter()
            .all(|seen| seen.who.as_deref() == Some("demo"))
    );
    for (name, step) in &report.steps {
        let leaks = step.out.contains(TOKEN) || step.err.contains(TOKEN);
        assert!(!leaks, "step `{name}`");
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn a_machine_that_does_not_end_is_killed_and_leaves_nothing() {
    if let Some(missing) = unit::missing() {
        println!("not attempted: needs {missing}");
        return;
    }
    let root = Source::of_host().unwrap().root(&guest()).unwrap();
    let machine = Machine::new(&guest()).unwrap();
    // Nothing in it ends it.
    let error = machine.boot(&root, Duration::from_secs(3)).unwrap_err();
    assert!(
        error.to_string().contains("did not end in 3 s"),
        "{error:#}"
    );
    let folder = machine.result("").parent().unwrap().to_owned();
    assert!(folder.is_dir());
    drop(machine);
    assert!(!folder.exists());
    let name = format!("custody-machine-{}", std::process::id());
    for hierarchy in ["", "systemd", "unified"] {
        let cgroup = Path::new("/sys/fs/cgroup").join(hierarchy).join(&name);
        assert!(!cgroup.exists(), "{}", cgroup.display());
    }
}
