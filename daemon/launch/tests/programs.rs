//! Programs that people use, at work inside. Each that the host does not have is not attempted.

#![expect(
    clippy::print_stdout,
    reason = "a test ends at the first thing that is not as it should be"
)]

#[cfg(test)]
mod support;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use custody_wire::launch::{Outcome, Role, WindowSize};
use support::{Start, can_run, folder_of};

fn has(program: &str) -> bool {
    let there = Path::new(program).exists();
    if !there {
        println!("not attempted: needs {program}");
    }
    there
}

#[test]
fn node_starts_workers_and_children_and_knows_its_user() {
    if !can_run() || !has("/usr/bin/node") {
        return;
    }
    let script = "
const { Worker } = require('worker_threads');
const { execFileSync } = require('child_process');
const os = require('os'), fs = require('fs'), net = require('net');
console.log(os.userInfo().username, os.homedir(), os.cpus().length > 0);
console.log(execFileSync('/bin/echo', ['child']).toString().trim());
new Worker('require(\"worker_threads\").parentPort.postMessage(6 * 7)', { eval: true })
  .on('message', m => { console.log(m);
    const server = net.createServer(c => c.end('local')).listen('/tmp/n.sock', () =>
      net.connect('/tmp/n.sock').on('data', d => { console.log(d.toString()); server.close(); })); });
fs.writeFileSync('/tmp/x', 'y');
";
    let ended = Start::command(&["/usr/bin/node", "-e", script]).run();
    assert_eq!(ended.text(), "agent /home/agent true\nchild\n42\nlocal");
}

#[test]
fn a_full_screen_editor_writes_a_file() {
    if !can_run() || !has("/usr/bin/vi") {
        return;
    }
    let folder = folder_of(4321);
    let mut start = Start::command(&["/usr/bin/vi", "text"]).workspace(folder.path());
    start.tty = Some(WindowSize {
        rows: 24,
        columns: 80,
    });
    start.environment = vec!["TERM=xterm".into()];
    let mut session = start.prepare().unwrap();
    let mut master = File::from(session.end(Role::Master));
    session.go();
    let mut screen = master.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = screen.read(&mut buffer) {
            all.extend_from_slice(buffer.get(..len).unwrap());
        }
        all
    });
    // Slow enough that an escape is not taken for the beginning of a key.
    for keys in ["ihello from inside", "\x1b", ":wq\r"] {
        std::thread::sleep(std::time::Duration::from_millis(700));
        master.write_all(keys.as_bytes()).unwrap();
    }
    let (outcome, _) = session.ended();
    let screen = reader.join().unwrap();
    assert_eq!(outcome, Some(Outcome::Exited { code: 0 }));
    let text = fs::read_to_string(folder.path().join("text"));
    let seen = String::from_utf8_lossy(&screen);
    assert_eq!(text.unwrap(), "hello from inside\n", "{seen}");
}

#[test]
fn an_interactive_bash_has_job_control() {
    if !can_run() || !has("/bin/bash") {
        return;
    }
    let script = "set -m; sleep 5 & jobs; kill %1; wait %1; echo $?; \
        echo ${BASH_VERSION:+yes}; cd ~ && pwd; whoami";
    let mut start = Start::command(&["/bin/bash", "-c", script]);
    start.tty = Some(WindowSize {
        rows: 24,
        columns: 80,
    });
    let mut session = start.prepare().unwrap();
    let mut master = File::from(session.end(Role::Master));
    session.go();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        text.push_str(&String::from_utf8_lossy(buffer.get(..len).unwrap()));
    }
    assert!(text.contains("Running"), "{text}");
    assert!(
        text.contains("143\r\nyes\r\n/home/agent\r\nagent\r\n"),
        "{text}"
    );
    assert_eq!(session.ended().0, Some(Outcome::Exited { code: 0 }));
}

#[test]
fn cargo_builds_offline_in_the_workspace() {
    let Some(toolchain) = toolchain() else {
        println!("not attempted: needs a Rust toolchain and cc");
        return;
    };
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    let write = |name: &str, text: &str| {
        let place = folder.path().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    };
    write(
        "Cargo.toml",
        "[package]\nname = 'inside'\nversion = '0.1.0'\nedition = '2021'\nbuild = 'build.rs'\n",
    );
    write(
        "build.rs",
        "fn main() { println!(\"cargo:rustc-env=BUILT=here\"); }",
    );
    write(
        "src/main.rs",
        "fn main() { println!(\"{}\", env!(\"BUILT\")); }",
    );
    for entry in [folder.path().to_path_buf(), folder.path().join("src")] {
        std::os::unix::fs::chown(entry, Some(4321), Some(4321)).unwrap();
    }
    let mut start = Start::sh("cargo run --offline --quiet").workspace(folder.path());
    start.read_only = vec![toolchain.clone()];
    start.environment = vec![format!("PATH={}/bin:/usr/bin:/bin", toolchain.display())];
    assert_eq!(start.run().text(), "here");
}

/// The folder of the toolchain that builds this, without rustup's proxies.
fn toolchain() -> Option<PathBuf> {
    let rustc = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = PathBuf::from(String::from_utf8(rustc.stdout).ok()?.trim());
    let whole = sysroot.join("bin/cargo").exists() && Path::new("/usr/bin/cc").exists();
    // /usr is there anyway.
    (whole && !sysroot.starts_with("/usr")).then_some(sysroot)
}
