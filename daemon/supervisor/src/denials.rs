//! Denials in the journal: who tried what, escapes neutralised, a flood counted instead.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agent_ebpf::{Event, Hook, protocol};
use gate::mutant::Mutant;

/// A cgroup's lines in one window, no two the same; the rest is counted.
const LINES_MAX: usize = 20;

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(10);

/// What is written of denials, by cgroup.
#[derive(Debug, Default)]
pub struct Denials {
    known: HashMap<u64, Account>,
    dropped: u64,
}

#[derive(Debug)]
struct Account {
    who: String,
    /// Whether the cgroup is one of ours that lives.
    known: bool,
    since: Option<Instant>,
    /// What was written in this window: the same again is counted.
    written: HashSet<Line>,
    suppressed: u64,
}

/// One denial in words.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Line {
    /// Whose cgroup.
    pub who: String,
    /// The task's name, escaped.
    pub comm: String,
    /// The hook.
    pub hook: &'static str,
    /// Where it wanted to go, escaped.
    pub to: String,
}

impl Denials {
    /// `cgroup_id` is `who` from now on.
    pub fn know(&mut self, cgroup_id: u64, who: String) {
        let account = Account {
            who,
            known: true,
            since: None,
            written: HashSet::new(),
            suppressed: 0,
        };
        self.known.insert(cgroup_id, account);
    }

    /// The cgroup is gone. What was suppressed is said.
    pub fn forget(&mut self, cgroup_id: u64) {
        if let Some(mut account) = self.known.remove(&cgroup_id) {
            account.close();
        }
    }

    /// Writes `event`, or counts it.
    pub fn note(&mut self, event: &Event, now: Instant) {
        if let Some(line) = self.line(event, now) {
            tracing::warn!(
                who = line.who,
                pid = event.tgid,
                uid = event.uid,
                comm = line.comm,
                hook = line.hook,
                to = line.to,
                "denied"
            );
        }
    }

    /// The line for `event`, unless its cgroup wrote it, or enough, in this window.
    fn line(&mut self, event: &Event, now: Instant) -> Option<Line> {
        let account = self
            .known
            .entry(event.cgroup_id)
            .or_insert_with(|| Account {
                who: format!("cgroup {}", event.cgroup_id),
                known: false,
                since: None,
                written: HashSet::new(),
                suppressed: 0,
            });
        let fresh = account
            .since
            .is_none_or(|since| now.duration_since(since) >= WINDOW);
        if fresh {
            account.close();
            account.since = Some(now);
        }
        let line = Line {
            who: account.who.clone(),
            comm: escaped(event.comm()),
            hook: event.hook().map_or("unknown", Hook::name),
            to: destination(event),
        };
        let fresh = (account.written.len() < LINES_MAX && account.written.insert(line.clone()))
            || Mutant::SupervisorDenialPace.is_on();
        if !fresh {
            account.suppressed = account.suppressed.saturating_add(1);
        }
        fresh.then_some(line)
    }

    /// Ends the windows that are over, and says how many events the ring could not take.
    pub fn tick(&mut self, now: Instant, dropped: u64) {
        for account in self.known.values_mut() {
            let over = account
                .since
                .is_some_and(|since| now.duration_since(since) >= WINDOW);
            if over {
                account.close();
            }
        }
        self.known
            .retain(|_, account| account.known || account.since.is_some());
        if dropped > self.dropped {
            let lost = dropped.saturating_sub(self.dropped);
            tracing::warn!(
                lost,
                total = dropped,
                "denials that the full ring could not take"
            );
            self.dropped = dropped;
        }
    }
}

impl Account {
    fn close(&mut self) {
        if self.suppressed > 0 {
            tracing::warn!(
                who = self.who,
                suppressed = self.suppressed,
                "more denials, not written"
            );
        }
        self.since = None;
        self.written.clear();
        self.suppressed = 0;
    }
}

/// What a task chose, as one line that steers no terminal.
fn escaped(bytes: &[u8]) -> String {
    if Mutant::SupervisorLogEscapes.is_on() {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    bytes.escape_ascii().to_string()
}

fn destination(event: &Event) -> String {
    let protocol = match event.protocol {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        other => format!("protocol {other}"),
    };
    let hook = event.hook();
    match hook {
        Some(hook) if hook.is_lsm() => asked_of_lsm(event),
        Some(Hook::ConnectUnix | Hook::SendMsgUnix) => {
            let path = event.path();
            let (sign, rest) = match path {
                [0, rest @ ..] => ("@", rest),
                _ => ("", path),
            };
            format!("unix {sign}{}", escaped(rest))
        }
        Some(Hook::SockCreate) => format!("family {} {protocol}", event.family),
        Some(Hook::Device) => device(event),
        Some(Hook::SetSockOpt) => format!("level {} option {}", event.family, event.protocol),
        Some(Hook::Sysctl) => "a sysctl".into(),
        Some(_) | None => {
            let port = u16::try_from(event.port).unwrap_or(0);
            format!(
                "{protocol} {}",
                std::net::SocketAddr::new(event.address(), port)
            )
        }
    }
}

fn device(event: &Event) -> String {
    let [low, high, ..] = event.address;
    let major = u16::from_le_bytes([low, high]);
    let kind = match event.family {
        1 => "block",
        _ => "character",
    };
    let makes = if event.protocol & 1 == 0 {
        ""
    } else {
        "mknod of "
    };
    format!("{makes}{kind} device {major}:{}", event.port)
}

/// A file by its last name, inode and device; a socket by its family; nothing else is known.
fn asked_of_lsm(event: &Event) -> String {
    let [a, b, c, d, e, f, g, h, ..] = event.address;
    let ino = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    let name = event.path.split(|byte| *byte == 0).next();
    match (name.unwrap_or_default(), ino, event.family) {
        ([], 0, 0) => String::new(),
        ([], 0, family) => format!("family {family} protocol {}", event.protocol),
        (name, ino, _) => format!(
            "file `{}` (inode {ino} on {}:{})",
            escaped(name),
            event.protocol >> 20,
            event.protocol & 0xf_ffff
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(hook: Hook, path: &[u8]) -> Event {
        let mut event = Event::from_bytes(&[0; size_of::<Event>()]).unwrap();
        event.cgroup_id = 7;
        event.hook = hook.number();
        event.comm[..4].copy_from_slice(b"a\x1b[m");
        event.path[..path.len()].copy_from_slice(path);
        event.port = u32::try_from(path.len()).unwrap();
        event
    }

    #[test]
    fn what_the_task_chose_cannot_steer_a_terminal_or_forge_a_line() {
        let mut denials = Denials::default();
        denials.know(7, "session x".into());
        let line = denials
            .line(&event(Hook::ConnectUnix, b"/a\n\x1b]0;b"), Instant::now())
            .unwrap();
        assert_eq!(line.comm, "a\\x1b[m");
        assert_eq!(line.to, "unix /a\\n\\x1b]0;b");
        assert_eq!(
            (line.who.as_str(), line.hook),
            ("session x", "connect_unix")
        );
        let line = denials
            .line(&event(Hook::ConnectUnix, b"\0name"), Instant::now())
            .unwrap();
        assert_eq!(line.to, "unix @name");
    }

    #[test]
    fn a_destination_is_said_with_its_port() {
        let mut event = event(Hook::Connect4, b"");
        event.protocol = protocol::TCP;
        event.address = agent_ebpf::mapped([192, 0, 2, 1]);
        event.port = 443;
        assert_eq!(destination(&event), "tcp 192.0.2.1:443");
        event.hook = Hook::SockCreate.number();
        event.family = 2;
        event.protocol = 262;
        assert_eq!(destination(&event), "family 2 protocol 262");
    }

    #[test]
    fn a_flood_of_one_cgroup_is_counted_and_silences_nobody_else() {
        let mut denials = Denials::default();
        let start = Instant::now();
        let mut flood = event(Hook::Connect4, b"");
        let lines = (0..1000)
            .filter_map(|port| {
                flood.port = port;
                denials.line(&flood, start)
            })
            .count();
        assert_eq!(lines, LINES_MAX);
        assert_eq!(denials.known[&7].suppressed, 980);
        let mut other = flood;
        other.cgroup_id = 8;
        assert!(denials.line(&other, start).is_some());
        assert!(denials.line(&flood, start + WINDOW).is_some());
        assert_eq!(denials.known[&7].suppressed, 0);
    }

    #[test]
    fn the_same_again_is_counted_not_written() {
        let mut denials = Denials::default();
        let start = Instant::now();
        let again = event(Hook::ConnectUnix, b"/var/run/nscd/socket");
        assert!(denials.line(&again, start).is_some());
        assert!(denials.line(&again, start).is_none());
        assert!(denials.line(&again, start + WINDOW).is_some());
    }
}
