//! What the hooks let through and refused of each session, said to control while it runs: `custody ps`
//! shows it. At its end the journal has the same sums by hook.

use std::collections::BTreeMap;

use custody_wire::supervise::{COUNTED_MAX, ControlNotice, Counts};
use gate::id::SessionId;

use super::{Custodyd, say::chain, services::Service};
use crate::hooks::Tally;

impl Custodyd {
    /// Tells control of every session that runs and of which something was counted since it was told.
    /// By the clock and not when it asks: whoever may ask control can ask as often as he likes.
    pub(super) fn say_counts(&mut self) {
        let now = self.count_sessions();
        let mut changed = Vec::new();
        for (id, session) in &mut self.sessions {
            let counts = now.get(id).copied().unwrap_or_default();
            if session.is_running() && session.counted != Some(counts) {
                session.counted = Some(counts);
                changed.push((*id, counts));
            }
        }
        for part in changed.chunks(COUNTED_MAX) {
            self.tell(
                Service::Control,
                &ControlNotice::Counted(part.to_vec()),
                &[],
            );
        }
    }

    fn count_sessions(&self) -> BTreeMap<SessionId, Counts> {
        let mut sums: BTreeMap<SessionId, Counts> = self
            .sessions
            .iter()
            .map(|(id, session)| (*id, sum(&session.tally)))
            .collect();
        let living = self
            .processes
            .values()
            .map(|(part, it)| (*part, &it.cgroup));
        let dying = self.dying.iter().map(|it| (it.part, &it.cgroup));
        for (part, cgroup) in living.chain(dying) {
            let Some(counts) = part.session().and_then(|id| sums.get_mut(&id)) else {
                continue;
            };
            match self.hooks.tally(cgroup.id()) {
                Ok(tally) => {
                    let more = sum(&tally);
                    counts.allowed = counts.allowed.saturating_add(more.allowed);
                    counts.refused = counts.refused.saturating_add(more.refused);
                }
                Err(error) => tracing::warn!(error = chain(&error), "counts of a cgroup"),
            }
        }
        sums
    }
}

/// Over all hooks.
fn sum(tally: &Tally) -> Counts {
    let over = |counts: &BTreeMap<_, u64>| counts.values().copied().fold(0, u64::saturating_add);
    Counts {
        allowed: over(&tally.allowed),
        refused: over(&tally.refused),
    }
}

#[cfg(test)]
mod tests {
    use custody_wire::frame;

    use super::*;

    #[test]
    fn the_counts_of_as_many_sessions_as_are_said_at_once_fit() {
        let most = Counts {
            allowed: u64::MAX,
            refused: u64::MAX,
        };
        let all = vec![(SessionId(u64::MAX), most); COUNTED_MAX];
        frame::datagram(&ControlNotice::Counted(all)).unwrap();
    }
}
