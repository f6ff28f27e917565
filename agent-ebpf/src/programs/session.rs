//! Whose task is this: which session it belongs to, by the cgroup that it is in or below.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::state;
use aya_ebpf::{
    Global,
    helpers::generated::{bpf_get_current_ancestor_cgroup_id, bpf_get_current_cgroup_id},
};

use super::SESSIONS;

// Names as in `agent_ebpf::global`.
#[unsafe(no_mangle)]
static AGENTS: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static LEVEL: Global<i32> = Global::new(0);

/// A task of a session.
#[derive(Clone, Copy)]
pub(super) struct Session {
    /// The id of the session's cgroup; of the agents' own where a task is in no session.
    pub(super) id: u64,
    state: u8,
}

impl Session {
    pub(super) fn is_launching(self) -> bool {
        self.state & state::LAUNCHING != 0
    }

    pub(super) fn may_trace(self) -> bool {
        self.state & state::TRACING != 0
    }
}

/// The level of a session's cgroup in the whole hierarchy.
#[inline(always)]
pub(super) fn level() -> i32 {
    LEVEL.load() + 1
}

/// The session of the running task; none if it is outside the agents' cgroup. However deep below
/// the session's cgroup the task is, it is the session's.
#[inline(always)]
pub(super) fn current() -> Option<Session> {
    let agents = AGENTS.load();
    let known = LEVEL.load();
    let level = if known == 0 { search(agents) } else { known };
    if agents == 0 || ancestor(level) != agents {
        return None;
    }
    let own = ancestor(level + 1);
    let id = if own == 0 { agents } else { own };
    // SAFETY: an entry is one byte; a concurrent update is seen before or after, never half.
    let state = unsafe { SESSIONS.get(id) }.copied().unwrap_or(0);
    Some(Session { id, state })
}

/// The running task's cgroup at a level of the hierarchy; 0, which is no id, below its own.
#[inline(always)]
fn ancestor(level: i32) -> u64 {
    // SAFETY: bpf-helpers(7): takes any level.
    unsafe { bpf_get_current_ancestor_cgroup_id(level) }
}

/// Where custodyd cannot know the level, because it is in a cgroup namespace of its own. The
/// verifier drops this where it can. LSM programs are not loaded then.
#[inline(always)]
fn search(agents: u64) -> i32 {
    for level in 1..DEEPEST {
        let id = ancestor(level);
        if id == agents || id == 0 {
            return level;
        }
    }
    DEEPEST
}

/// Service managers and containers in each other come to ten or so.
const DEEPEST: i32 = 32;

/// The same, once everything of the agent's own may run: what custody-launch does is let through.
#[inline(always)]
pub(super) fn confined() -> Option<Session> {
    current().filter(|session| !session.is_launching())
}

/// The id that a task is counted under.
#[inline(always)]
pub(super) fn account() -> u64 {
    match current() {
        Some(session) => session.id,
        // SAFETY: bpf-helpers(7): takes nothing.
        None => unsafe { bpf_get_current_cgroup_id() },
    }
}
