//! Bad input: each is refused with what is wrong and what to do, and nothing is changed.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Output, process::Stdio};

use custody_tests::{
    ground::{self, Ground, words},
    host::Host,
};

/// Starts custodyd, which must not come up.
fn refused(host: &Host) -> anyhow::Result<String> {
    let mut child = host
        .daemon_command()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while child.try_wait()?.is_none() {
        if std::time::Instant::now() >= end {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id())?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
            let output = child.wait_with_output()?;
            anyhow::bail!("it came up: {}", words(&output));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output: Output = child.wait_with_output()?;
    anyhow::ensure!(!output.status.success(), "{}", words(&output));
    let left = host.leftovers();
    anyhow::ensure!(left.is_empty(), "{left:?}: {}", words(&output));
    Ok(words(&output))
}

#[test]
#[serial_test::file_serial(custody)]
fn a_policy_or_configuration_that_is_wrong_starts_nothing() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::lay().unwrap();
    let host = &ground.host;
    let good = ground.policy();
    let policies = [
        (
            "an unknown key",
            good.replacen("[session]", "[session]\ncolour = 1", 1),
            "colour",
        ),
        (
            "a newer format",
            good.replacen("format = 1", "format = 2", 1),
            "format",
        ),
        (
            "a tool twice",
            format!("{good}\n[tools.whoami]\ndescription = \"again\"\n"),
            "whoami",
        ),
        (
            "an unknown credential",
            good.replacen("credential = \"demo\"", "credential = \"other\"", 1),
            "other",
        ),
        (
            "a host outside the floor",
            good.replacen(
                &format!("url = \"http://{}/v1/messages\"", ground.witness.address()),
                "url = \"http://127.0.0.2:1/v1/messages\"",
                1,
            ),
            "127.0.0.2",
        ),
    ];
    for (what, text, names) in policies {
        assert_ne!(text, good, "{what}");
        host.write_policy(ground::NAME, &text).unwrap();
        let said = refused(host).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert!(
            said.contains(names) && said.contains("demo.toml"),
            "{what}: {said}"
        );
    }
    host.write_policy(ground::NAME, &good).unwrap();

    let good = host.configuration_text().unwrap();
    let first = |name: &str| {
        let line = good.lines().find(|line| line.starts_with(name)).unwrap();
        line.to_owned()
    };
    let agents = first("agents = ");
    let cgroup = first("cgroup = ");
    let gate = first("gate = ");
    let configurations = [
        (
            "an unknown key",
            good.replacen("[paths]", "[paths]\ncolour = 1", 1),
            "colour",
        ),
        (
            "a newer format",
            good.replacen("format = 1", "format = 2", 1),
            "format",
        ),
        (
            "an empty uid range",
            good.replacen(&agents, "agents = { first = 1930000000, count = 0 }", 1),
            "agents",
        ),
        (
            "a uid range of people's",
            good.replacen(&agents, "agents = { first = 1000, count = 10 }", 1),
            "agents",
        ),
        (
            "a cgroup that is none",
            good.replacen(&cgroup, "cgroup = \"/var/tmp\"", 1),
            "/var/tmp",
        ),
        (
            "a service that runs as root",
            good.replacen(&gate, "gate = \"0\"", 1),
            "users.gate",
        ),
        (
            "a credential that is not there",
            good.replacen(
                "[credentials]",
                "[credentials]\nlost = { file = \"/nowhere/lost\" }",
                1,
            ),
            "/nowhere/lost",
        ),
    ];
    for (what, text, names) in configurations {
        assert_ne!(text, good, "{what}");
        host.write("custodyd.toml", 0o644, &text).unwrap();
        let said = refused(host).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert!(said.contains(names), "{what}: {said}");
    }

    // The very range of a person's subordinate uids (subuid(5)).
    let subuid = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let range = subuid
        .lines()
        .find_map(|line| line.split(':').nth(1)?.parse::<u32>().ok());
    match range {
        Some(first) => {
            let text = good.replacen(
                &agents,
                &format!("agents = {{ first = {first}, count = 9 }}"),
                1,
            );
            host.write("custodyd.toml", 0o644, &text).unwrap();
            let said = refused(host).unwrap();
            assert!(said.contains("agents"), "{said}");
        }
        None => println!("not attempted: needs a line in /etc/subuid"),
    }
    host.write("custodyd.toml", 0o666, &good).unwrap();
    let said = refused(host).unwrap();
    assert!(said.contains("custodyd.toml"), "{said}");
    host.write("custodyd.toml", 0o644, &good).unwrap();
    fs::set_permissions(
        host.folder().join("custodyd.toml"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();

    // A credential that others may read.
    let token = ground.witness.token_file("demo");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(host).unwrap();
    assert!(
        said.contains("chmod") && said.contains(&token.display().to_string()),
        "{said}"
    );
    assert!(!said.contains(&ground.canary));
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
#[serial_test::file_serial(custody)]
fn a_session_that_cannot_be_had_does_not_start_and_leaves_nothing() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let host = &ground.host;
    let at = |path: &str| {
        let output = ground
            .run()
            .args(["--workdir", path, "--", "/bin/true"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(125),
            "{path}: {}",
            words(&output)
        );
        words(&output)
    };
    let roots = host.folder().join("roots");
    fs::create_dir(&roots).unwrap();
    let nested = host.workspace("nested").unwrap();
    let inner = nested.join("inner");
    fs::create_dir(&inner).unwrap();
    let link = host.folder().join("link");
    std::os::unix::fs::symlink(host.workspace("real").unwrap(), &link).unwrap();
    for (path, names) in [
        ("/nowhere/at-all", "/nowhere/at-all"),
        ("/", "/"),
        ("/proc/self", "/proc"),
        (roots.to_str().unwrap(), "root"),
        ("/tmp", "/tmp"),
    ] {
        let said = at(path);
        assert!(said.contains(names), "{path}: {said}");
    }
    nix::mount::mount(
        Some("tmpfs"),
        &inner,
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        None::<&str>,
    )
    .unwrap();
    let said = at(nested.to_str().unwrap());
    nix::mount::umount(&inner).unwrap();
    assert!(said.contains("mount"), "{said}");

    // What is not a session's to choose.
    let bad = [
        (vec!["--policy", "other", "--", "/bin/true"], "other"),
        (
            vec![
                "--policy",
                "demo",
                "--value",
                "customer=no-address",
                "--",
                "/bin/true",
            ],
            "customer",
        ),
        (
            vec![
                "--policy",
                "demo",
                "--value",
                "colour=red",
                "--",
                "/bin/true",
            ],
            "colour",
        ),
    ];
    for (arguments, names) in bad {
        let output = host.cli().arg("run").args(&arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(125),
            "{arguments:?}: {}",
            words(&output)
        );
        assert!(
            words(&output).contains(names),
            "{arguments:?}: {}",
            words(&output)
        );
    }
    let missing = ground
        .run()
        .args(["--", "/bin/no-such-program"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(127), "{}", words(&missing));
    let folder = ground.run().args(["--", "/usr"]).output().unwrap();
    assert_eq!(folder.status.code(), Some(126), "{}", words(&folder));

    // Someone whom no rule names may do nothing.
    let mut stranger = std::process::Command::new(host.programs().join("custody"));
    std::os::unix::process::CommandExt::uid(&mut stranger, 65_534);
    let output = stranger
        .arg("--socket")
        .arg(host.folder().join("run/control.sock"))
        .args(["run", "--policy", "demo", "--", "/bin/true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", words(&output));

    // A second custodyd in the same place.
    let second = host.daemon_command().stdin(Stdio::null()).output().unwrap();
    assert!(!second.status.success());
    assert!(
        words(&second).contains("another custodyd"),
        "{}",
        words(&second)
    );
    assert!(host.is_ready());
    host.wait("nothing is left of any of them", || {
        host.session_cgroups().is_empty()
    })
    .unwrap();
    let services = [
        "custodyd",
        "custody-control",
        "custody-gate",
        "custody-vault",
        "custody-effect",
        // Ready for a session.
        "custody-launch",
    ];
    // The next launch is made ready at any time: looked at again until both looks agree.
    host.wait("only the services are left", || {
        let known: usize = services.iter().map(|name| host.pids(name).len()).sum();
        host.processes().len() == known
    })
    .unwrap();
}

#[test]
#[serial_test::file_serial(custody)]
fn what_a_kernel_lacks_is_named_and_nothing_runs_with_less() {
    use nix::libc::{SYS_landlock_create_ruleset, SYS_pivot_root};

    if !ground::can_run() {
        return;
    }
    // Without Landlock nothing starts at all.
    let mut ground = Ground::lay().unwrap();
    ground.host.lack(&[SYS_landlock_create_ruleset]);
    let said = refused(&ground.host).unwrap();
    assert!(said.to_lowercase().contains("landlock"), "{said}");

    // What only a session needs refuses the session, by the layer's name and errno.
    ground.host.lack(&[SYS_pivot_root]);
    ground.host.up().unwrap();
    let output = ground.shell("echo ran").unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(!said.contains("ran"), "{said}");
    assert!(
        said.contains("mount_namespace") && said.contains("ENOSYS"),
        "{said}"
    );
    ground
        .host
        .wait("nothing of it is left", || {
            ground.host.session_cgroups().is_empty()
        })
        .unwrap();
}
