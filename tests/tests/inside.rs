//! What people run works inside: shells, interpreters, version control, builds, full-screen programs.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use custody_tests::ground::{self, Ground, has, words};

/// Whether the program is there; says so if not.
#[expect(
    clippy::print_stdout,
    reason = "a test's harness takes it, and the runner lists what was not attempted"
)]
fn there(program: &str) -> bool {
    let there = has(program);
    if !there {
        println!("not attempted: needs {program}");
    }
    there
}

fn nothing(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[test]
#[serial_test::file_serial(custody)]
fn shells_interpreters_and_version_control_work() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();

    let output = ground
        .shell("set -e; echo $((6*7)) | tee /tmp/x >/dev/null; (sleep 0.1 & wait); cat /tmp/x; id -un; whoami; echo ~; exit 3")
        .unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("42") && said.contains("agent"), "{said}");

    if there("/usr/bin/python3") {
        for method in ["fork", "spawn", "forkserver"] {
            let script = format!(
                "cat > p.py <<'END'\n\
                 import multiprocessing, subprocess, threading, asyncio, sys\n\
                 def square(n): return n * n\n\
                 if __name__ == '__main__':\n\
                 \x20   multiprocessing.set_start_method('{method}')\n\
                 \x20   with multiprocessing.Pool(2) as pool: print(sum(pool.map(square, range(10))))\n\
                 \x20   q = multiprocessing.Queue(); q.put(1); print('queue', q.get(timeout=10))\n\
                 \x20   t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n\
                 \x20   print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)\n\
                 \x20   async def f(): await asyncio.sleep(0); print('async')\n\
                 \x20   asyncio.run(f())\n\
                 END\n\
                 /usr/bin/python3 p.py"
            );
            let output = ground
                .in_workspace(&format!("python-{method}"), nothing, &script)
                .unwrap();
            let said = words(&output);
            assert!(output.status.success(), "{method}: {said}");
            for wanted in ["285", "queue 1", "thread", "child", "async"] {
                assert!(said.contains(wanted), "{method}: {wanted}: {said}");
            }
        }
    }

    if there("/usr/bin/node") {
        let script = "node -e \"const {execFileSync} = require('child_process'); \
            const {Worker} = require('worker_threads'); const os = require('os'); \
            console.log(execFileSync('echo', ['child']).toString(), os.userInfo().username, os.cpus().length > 0); \
            new Worker('console.log(\\\"worker\\\")', {eval: true})\"";
        let output = ground.in_workspace("node", nothing, script).unwrap();
        let said = words(&output);
        assert!(output.status.success(), "{said}");
        for wanted in ["child", "agent", "true", "worker"] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }

    if there("/usr/bin/git") {
        let script = "export PATH=/usr/bin:/bin; git init -q . && echo a > a && git add a && \
            git -c user.name=a -c user.email=a@example.org commit -qm first && git log --oneline | cat";
        let output = ground.in_workspace("git", nothing, script).unwrap();
        let said = words(&output);
        assert!(output.status.success() && said.contains("first"), "{said}");
        // The files are the owner's outside, not the session's.
        let made = fs::metadata(ground.host.folder().join("git/a")).unwrap();
        let uid = std::os::unix::fs::MetadataExt::uid(&made);
        assert_eq!(uid, ground.host.operator());
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn a_full_screen_program_has_a_terminal_of_its_own() {
    if !ground::can_run() {
        return;
    }
    if !has("/usr/bin/script") || !has("/usr/bin/vi") {
        println!("not attempted: needs script(1) and vi(1)");
        return;
    }
    let ground = Ground::set().unwrap();
    let folder = ground.host.workspace("screen").unwrap();
    let log = ground.host.folder().join("typescript");
    let run = ground.run();
    let mut line: Vec<String> = vec![run.get_program().to_string_lossy().into_owned()];
    line.extend(run.get_args().map(|it| it.to_string_lossy().into_owned()));
    line.extend([
        "--workdir".into(),
        folder.display().to_string(),
        "--".into(),
    ]);
    line.push("/bin/bash -c 'tty; stty size; TERM=xterm vi -u NONE note.txt; exit 4'".into());
    // script(1) brings the caller's terminal; setpriv(1) makes him the operator again.
    let uid = ground.host.operator();
    let command = format!(
        "stty rows 33 cols 99; exec setpriv --reuid {uid} --regid {uid} --clear-groups {}",
        line.join(" ")
    );
    let mut child = Command::new("/usr/bin/script")
        .args(["-qec", &command])
        .arg(&log)
        .env("SHELL", "/bin/bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    keys.write_all(b"ihello from a screen\x1b").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    keys.write_all(b":wq\r").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    drop(keys);
    let output = child.wait_with_output().unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("/dev/pts/0") && said.contains("33 99"),
        "{said}"
    );
    let written = fs::read_to_string(folder.join("note.txt")).unwrap();
    assert_eq!(written, "hello from a screen\n");
}

#[test]
#[serial_test::file_serial(custody)]
fn a_build_runs_offline_with_a_toolchain_that_the_policy_shows() {
    if !ground::can_run() {
        return;
    }
    let Ok(rustc) = Command::new("rustc").args(["--print", "sysroot"]).output() else {
        println!("not attempted: needs rustc");
        return;
    };
    let sysroot = String::from_utf8(rustc.stdout).unwrap();
    let sysroot = sysroot.trim();
    if !has(&format!("{sysroot}/bin/cargo")) || !has("/usr/bin/cc") {
        println!("not attempted: needs a toolchain with cargo, and cc");
        return;
    }
    let mut ground = Ground::lay().unwrap();
    let programs = format!("{:?}", ground.host.programs());
    let policy = ground.policy().replacen(
        &format!("read_only = [{programs}]"),
        &format!("read_only = [{programs}, {sysroot:?}]"),
        1,
    );
    assert!(policy.contains(sysroot));
    ground.host.write_policy(ground::NAME, &policy).unwrap();
    ground.host.up().unwrap();
    let prepare = |folder: &Path| {
        fs::create_dir(folder.join("src"))?;
        fs::write(
            folder.join("Cargo.toml"),
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        )?;
        fs::write(
            folder.join("src/main.rs"),
            "fn main() { println!(\"built\"); }\n",
        )
    };
    let script = format!("export PATH={sysroot}/bin:/usr/bin:/bin; cargo run --offline --quiet");
    let output = ground.in_workspace("build", prepare, &script).unwrap();
    let said = words(&output);
    assert!(output.status.success() && said.contains("built"), "{said}");
}
