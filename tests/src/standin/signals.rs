//! Signals that the stand-in is sent: heard, written down, survived.

use std::{fs, io, io::Write as _, path::PathBuf, thread};

use nix::sys::signal::{SigSet, Signal};

/// What attacks send: none of them ends a program that waits for them.
const HEARD: [Signal; 2] = [Signal::SIGURG, Signal::SIGUSR1];

/// From now on each of these is a line in `record`. To be called before there is another thread:
/// each inherits the mask (pthread_sigmask(3)).
pub(super) fn record(record: PathBuf) -> io::Result<()> {
    let mut signals = SigSet::empty();
    for signal in HEARD {
        signals.add(signal);
    }
    signals.thread_block()?;
    let _detached = thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if note(&record, signal).is_err() {
                break;
            }
        }
    });
    Ok(())
}

fn note(record: &PathBuf, signal: Signal) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(record)?;
    writeln!(file, "{signal}")
}
