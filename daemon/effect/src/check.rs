//! The verifier: runs a policy's program once, and says how it ended.
//!
//! It holds no credential, and its own confinement is the program's: no network, nothing to write, only what
//! the policy lets it read. What the program starts and leaves behind ends with its cgroup.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{ChildStderr, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use custody_service::program;
use custody_wire::{
    frame::{self, FrameError},
    perform::{CHECKED_WORDS_MAX, Check, Checked},
};

/// How long what a program wrote is waited for once it ended: a child of its own may hold its end.
const WORDS: Duration = Duration::from_millis(100);

/// Hears one [`Check`], runs the program and arguments of `line`, says how it ended.
///
/// # Errors
/// When the channel does not carry it.
pub fn serve(channel: OwnedFd, line: &[OsString]) -> Result<(), FrameError> {
    let mut channel = UnixStream::from(channel);
    let check: Check = frame::read(&mut channel)?;
    let checked = match run(line, &check) {
        Ok(checked) => checked,
        Err(error) => Checked::Failed {
            why: format!("it could not be run: {error}"),
        },
    };
    frame::write(&mut channel, &checked)
}

fn run(line: &[OsString], check: &Check) -> io::Result<Checked> {
    let (path, arguments) = line
        .split_first()
        .ok_or_else(|| io::Error::other("no program was named"))?;
    let mut child = program::command(path, arguments)
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    let words = child.stderr.take().map(words_of);
    let told = check.told.clone();
    // A program that does not read it may well know enough.
    drop(thread::spawn(move || {
        stdin.map(|mut stdin| stdin.write_all(&told))
    }));
    let patience = Duration::from_millis(check.timeout_ms.into());
    let Some(status) = program::ended(&mut child, patience)? else {
        let why = format!("it did not end within {} ms", check.timeout_ms);
        return Ok(Checked::Failed { why });
    };
    let words = words.and_then(|words| words.recv_timeout(WORDS).ok());
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(status)) => Checked::Exited {
            status,
            words: words.unwrap_or_default(),
        },
        Some(Err(_)) | None => Checked::Failed {
            why: format!("it was ended: {status}"),
        },
    })
}

/// Its first words; what it writes beyond them is read and dropped, so that it does not wait for us.
fn words_of(stderr: ChildStderr) -> mpsc::Receiver<Vec<u8>> {
    let (said, words) = mpsc::channel();
    drop(thread::spawn(move || {
        let mut stderr = stderr;
        let mut first = Vec::new();
        let most = u64::try_from(CHECKED_WORDS_MAX).unwrap_or(u64::MAX);
        let read = (&mut stderr).take(most).read_to_end(&mut first);
        if read.is_ok() && said.send(first).is_ok() {
            drop(io::copy(&mut stderr, &mut io::sink()));
        }
    }));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn checked(script: &str, told: &[u8], timeout_ms: u32) -> Checked {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let program = ["/bin/sh", "-c", script].map(OsString::from);
        let serving = thread::spawn(move || serve(theirs.into(), &program));
        let mut ours = ours;
        let check = Check {
            told: told.to_vec(),
            timeout_ms,
        };
        frame::write(&mut ours, &check).unwrap();
        let checked = frame::read(&mut ours).unwrap();
        serving.join().unwrap().unwrap();
        checked
    }

    fn exited(checked: Checked) -> (u8, String) {
        match checked {
            Checked::Exited { status, words } => (status, String::from_utf8(words).unwrap()),
            Checked::Failed { why } => panic!("{why}"),
        }
    }

    #[test]
    fn the_programs_exit_status_and_first_words_come_back_and_it_is_told_the_call() {
        let (status, words) = exited(checked("cat >&2; exit 1", b"{\"tool\":\"note\"}", 5_000));
        assert_eq!((status, words.as_str()), (1, "{\"tool\":\"note\"}"));
        assert_eq!(
            exited(checked("exit 0", b"unread", 5_000)),
            (0, String::new())
        );
    }

    #[test]
    fn a_program_that_talks_too_much_or_does_not_read_is_waited_for_and_cut_short() {
        let told = vec![b'x'; 300_000];
        let (status, words) = exited(checked(
            "head -c 500000 /dev/zero | tr '\\0' y >&2; exit 2",
            &told,
            20_000,
        ));
        assert_eq!((status, words.len()), (2, CHECKED_WORDS_MAX));
    }

    #[test]
    fn a_program_that_hangs_is_killed_or_is_not_there_says_nothing() {
        for (script, said) in [
            ("sleep 60", "within 50 ms"),
            ("kill -9 $$", "it was ended: signal: 9"),
        ] {
            let patience = if script.starts_with("sleep") {
                50
            } else {
                5_000
            };
            let Checked::Failed { why } = checked(script, b"", patience) else {
                panic!("{script}")
            };
            assert!(why.contains(said), "{why}");
        }
        let nothing = Check {
            told: Vec::new(),
            timeout_ms: 1,
        };
        assert!(run(&["/no/such/program".into()], &nothing).is_err());
        assert!(run(&[], &nothing).is_err());
    }

    #[test]
    fn what_a_program_leaves_behind_with_its_words_open_holds_up_nobody() {
        let begun = Instant::now();
        let (status, _none) = exited(checked("sleep 20 & exit 0", b"", 10_000));
        assert_eq!(status, 0);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
