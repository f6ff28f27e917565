//! Signals that the kernel sends on a process's behalf (fcntl(2), F_SETOWN): to nobody outside.

#[cfg(test)]
mod support;

use std::{os::unix::process::ExitStatusExt as _, time::Duration};

use custody_wire::layer::Layer;
use support::{Outside, Start, can_run};

/// Makes PID the owner of a pipe and of a socket, in each of the three ways, and writes into them.
const OWNS: &str = r"
import errno, fcntl, os, socket, struct
def tried(f):
    try:
        f()
        return 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]
r, w = os.pipe()
F_SETOWN_EX, FIOSETOWN = 15, 0x8901
print(tried(lambda: fcntl.fcntl(r, fcntl.F_SETOWN, PID)))
print(tried(lambda: fcntl.fcntl(r, F_SETOWN_EX, struct.pack('ii', 1, PID))))
a, b = socket.socketpair()
print(tried(lambda: fcntl.ioctl(a, FIOSETOWN, struct.pack('i', PID))))
for fd in (r, a.fileno()): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC)
os.write(w, b'x')
b.send(b'x')
";

/// What the session was answered, and the signal that ended the process outside, if one did.
#[cfg(test)]
fn signalled(without: &[Layer]) -> (String, Option<i32>) {
    let mut outside = Outside::start();
    let script = OWNS.replace("PID", &outside.0.id().to_string());
    let ended = Start::python(&script).without(without).run();
    // The signal comes with the write, before the session ends; its victim ends a little later.
    for _ in 0..200 {
        if let Some(status) = outside.0.try_wait().unwrap() {
            return (ended.text().to_owned(), status.signal());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (ended.text().to_owned(), None)
}

#[test]
fn an_owner_of_a_descriptor_outside_gets_no_signal_and_two_locks_hold_it() {
    if !can_run() {
        return;
    }
    assert_eq!(signalled(&[]), ("ESRCH\nESRCH\nESRCH".into(), None));
    let (said, ended) = signalled(&[Layer::PidNamespace]);
    assert_eq!(
        (said.as_str(), ended),
        ("ok\nok\nok", None),
        "Landlock's scope"
    );
    // The control: with neither the process is ended by SIGIO.
    let (said, ended) = signalled(&[Layer::PidNamespace, Layer::Landlock]);
    assert_eq!((said.as_str(), ended), ("ok\nok\nok", Some(29)));
}
