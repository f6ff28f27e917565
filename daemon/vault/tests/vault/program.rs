//! The program itself, as custodyd starts it.

use std::{
    fs,
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
};

use custody_sys::channel;
use custody_wire::{
    Message as _, frame,
    supervise::{VaultNotice, VaultOrder},
};
use gate::{
    id::{CredentialLabel, PolicyName},
    policy::Policy,
};

use crate::harness::{SECRET, policy_text, secret_file};

/// The program with `channel` as descriptor 3, an empty environment and a pipe as stderr.
fn start(dir: &Path, channel: OwnedFd) -> Child {
    let place = |name: &str| dir.join(name).into_os_string();
    Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" \"$@\" 3<&0 0</dev/null"])
        .arg(env!("CARGO_BIN_EXE_custody-vault"))
        .arg("--policies")
        .arg(place("policies"))
        .arg("--state")
        .arg(place("state"))
        .arg("--chain")
        .arg(place("receipts"))
        .arg("--public")
        .arg(place("public"))
        .env_clear()
        .stdin(Stdio::from(channel))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(mut child: Child) -> (bool, String) {
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let _len = stderr.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().success(), said)
}

fn folders() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["policies", "state", "receipts", "public"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    dir
}

#[test]
fn a_credential_in_custody_is_in_locked_memory_and_nowhere_else_that_can_be_read() {
    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root, whose the policies must be");
        return;
    }
    let dir = folders();
    let name = PolicyName::parse("test").unwrap();
    let policy = Policy::compile(&name, &policy_text(80)).unwrap();
    fs::write(dir.path().join("policies/test.policy"), policy.to_bytes()).unwrap();
    let (ours, theirs) = channel::pair_seqpacket().unwrap();
    let child = start(dir.path(), theirs);
    let label = CredentialLabel::parse("api").unwrap();
    let notice = frame::datagram(&VaultNotice::Credential { label }).unwrap();
    let file = secret_file(&format!("{SECRET}\n"));
    channel::send(&ours, &notice, &[file.as_fd()]).unwrap();
    channel::send(&ours, &frame::datagram(&VaultNotice::Ready).unwrap(), &[]).unwrap();
    drop(file);
    // The head of the chain, told without being asked.
    let mut buffer = vec![0; VaultOrder::CAP];
    let (len, _none) = channel::recv(&ours, &mut buffer, 0).unwrap();
    let order: VaultOrder = frame::parse(&buffer[..len]).unwrap();
    assert!(matches!(order, VaultOrder::Head(_)), "{order:?}");
    let proc = Path::new("/proc").join(child.id().to_string());
    let maps = || fs::read_to_string(proc.join("maps")).unwrap();
    // It reads its notices well within this.
    std::thread::sleep(std::time::Duration::from_millis(300));

    if maps().contains("secretmem") {
        // All that root can read of it: every writable mapping but that one.
        let memory = fs::File::open(proc.join("mem")).unwrap();
        let mut looked = 0_usize;
        for line in maps().lines().filter(|line| line.contains(" rw")) {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let from = u64::from_str_radix(from, 16).unwrap();
            let to = u64::from_str_radix(to, 16).unwrap();
            let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
            let read = std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, from);
            if read.is_err() {
                continue;
            }
            looked += 1;
            let found = bytes
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes());
            assert!(!found, "in {range} {rest}");
        }
        assert!(looked > 5, "the memory was readable at all");
    } else {
        println!("not attempted: needs memfd_secret(2)");
    }
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(proc.join(file)).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("fake"), "{file}");
    }
    for entry in fs::read_dir(proc.join("fd")).unwrap() {
        let leads = fs::read_link(entry.unwrap().path()).unwrap();
        assert!(!leads.to_string_lossy().contains("secretmem"), "{leads:?}");
    }
    drop(ours);
    let (success, said) = end(child);
    assert!(success && !said.contains("fake"), "{said}");
    assert!(said.contains("credential=api"), "{said}");
    for file in ["state/receipts.key", "public/receipts.pub"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
}

#[test]
fn a_wrong_start_says_what_is_wrong_and_makes_nothing() {
    let dir = folders();
    fs::write(dir.path().join("policies/bad.policy"), "{}").unwrap();
    let (_ours, theirs) = channel::pair_seqpacket().unwrap();
    let (success, said) = end(start(dir.path(), theirs));
    assert!(
        !success && said.contains("the policies cannot be loaded"),
        "{said}"
    );
    assert_eq!(fs::read_dir(dir.path().join("state")).unwrap().count(), 0);
    assert_eq!(
        fs::read_dir(dir.path().join("receipts")).unwrap().count(),
        0
    );
}
