//! The sessions: who may ask, under which policy, and what they have seen.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use custody_service::places::{Place, Places};
use gate::{
    call::Call,
    decide::{Ask, Verdict},
    id::{PolicyName, SessionId},
    mutant::Mutant,
    session::Facts,
};
use tokio::task::AbortHandle;

use crate::{front::Answers, pending::Pending, policies::Loaded};

/// Calls of one session that may be on their way at once.
pub(crate) const IN_FLIGHT: usize = 16;

/// Streams of one session that may be open at once; the vault gives no more.
pub(crate) const STREAMS: usize = 4;

/// Sessions that may be open at once: far more than there are uids in use on one host.
pub(crate) const SESSIONS: usize = 4_096;

/// One session. Its channel is its identity: who holds it asks as this session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) loaded: Rc<Loaded>,
    /// Who asked for it.
    pub(crate) caller_uid: u32,
    /// The sessions that it was delegated from, the nearest first.
    above: Vec<Rc<Session>>,
    /// Their ids, for the records.
    pub(crate) from: Vec<SessionId>,
    /// What it has seen. Outlives its fronts, and is forgotten with the session alone.
    pub(crate) facts: RefCell<Facts>,
    /// The calls that wait.
    pub(crate) pending: RefCell<Pending>,
    open: Cell<bool>,
    in_flight: Places,
    front: RefCell<Option<AbortHandle>>,
    answers: RefCell<Option<Answers>>,
    streams: Places,
}

/// A stream's place among those of its session that are open.
pub(crate) type StreamPlace = Place;

/// A call's slot among those of its session that are on their way.
pub(crate) type Slot = Place;

impl Session {
    pub(crate) fn new(
        id: SessionId,
        loaded: Rc<Loaded>,
        facts: Facts,
        caller_uid: u32,
        above: Vec<Rc<Self>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            id,
            loaded,
            caller_uid,
            from: above.iter().map(|it| it.id).collect(),
            above,
            facts: RefCell::new(facts),
            pending: RefCell::default(),
            open: Cell::new(true),
            in_flight: Places::new(IN_FLIGHT),
            front: RefCell::new(None),
            answers: RefCell::new(None),
            streams: Places::new(STREAMS),
        })
    }

    /// A slot for one more call, if there is one.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.in_flight.enter()
    }

    /// A place for one more stream, if there is one.
    pub(crate) fn stream_place(&self) -> Option<StreamPlace> {
        self.streams.enter()
    }

    /// From now on this is the way to the session's front.
    pub(crate) fn answers_to(&self, answers: Answers) {
        *self.answers.borrow_mut() = Some(answers);
    }

    /// The way to the session's front, if it has one.
    pub(crate) fn answers(&self) -> Option<Answers> {
        self.answers.borrow().clone()
    }

    /// Whether the session still counts. One that was delegated counts no longer than each that it was
    /// delegated from.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get() && self.above.iter().all(|it| it.open.get())
    }

    /// The sessions that one delegated from this one is below, the nearest first.
    pub(crate) fn and_above(self: &Rc<Self>) -> Vec<Rc<Self>> {
        let above = self.above.iter().cloned();
        std::iter::once(Rc::clone(self)).chain(above).collect()
    }

    /// Decides on what is asked in this session, and in all that it was delegated from: what they may no
    /// longer, it may not either.
    pub(crate) fn decide(&self, ask: Ask<'_>) -> Verdict {
        let facts: Vec<_> = self.above.iter().map(|it| it.facts.borrow()).collect();
        let mut above: Vec<&Facts> = facts.iter().map(|it| &**it).collect();
        for it in &above {
            self.facts.borrow_mut().tainted_as(it);
        }
        if Mutant::GateDelegationBooks.is_on() {
            above.clear();
        }
        self.loaded.decide(&self.facts.borrow(), &ask.below(&above))
    }

    /// A call is let through at `now_ms`; `approved` by a person or not. It is counted in every session
    /// above too. That somebody was asked is this session's alone: the others ask for themselves.
    pub(crate) fn record_call(&self, call: &Call, now_ms: u64, approved: bool) {
        let policy = &self.loaded.policy;
        let mut facts = self.facts.borrow_mut();
        facts.record_call(policy, call, now_ms, approved);
        for above in self
            .above
            .iter()
            .filter(|_| !Mutant::GateDelegationBooks.is_on())
        {
            let mut facts = above.facts.borrow_mut();
            facts.record_call(policy, call, now_ms, false);
        }
    }

    /// From now on this front speaks for the session, and an earlier one no longer does.
    pub(crate) fn fronted_by(&self, front: AbortHandle) {
        if let Some(earlier) = self.front.borrow_mut().replace(front) {
            earlier.abort();
        }
    }

    fn close(&self) {
        self.open.set(false);
        drop(self.answers.borrow_mut().take());
        if let Some(front) = self.front.borrow_mut().take() {
            front.abort();
        }
    }
}

/// The open sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: RefCell<HashMap<SessionId, Rc<Session>>>,
}

/// Why a session is not opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Unopened {
    #[error("{SESSIONS} sessions are open; stop one")]
    Full,
    #[error("a session of this id is open")]
    Lives,
}

impl Sessions {
    /// Whether a session of this id may be opened.
    pub(crate) fn admit(&self, id: SessionId) -> Result<(), Unopened> {
        let open = self.open.borrow();
        if open.contains_key(&id) {
            Err(Unopened::Lives)
        } else if open.len() >= SESSIONS {
            Err(Unopened::Full)
        } else {
            Ok(())
        }
    }

    /// Opens a session that was [admitted](Self::admit).
    pub(crate) fn insert(&self, session: Rc<Session>) {
        let earlier = self.open.borrow_mut().insert(session.id, session);
        if let Some(earlier) = earlier {
            earlier.close();
        }
    }

    /// The open sessions that were delegated from this one, or from one that was.
    pub(crate) fn below(&self, id: SessionId) -> Vec<SessionId> {
        let open = self.open.borrow();
        let below = open.values().filter(|it| it.from.contains(&id));
        below.map(|it| it.id).collect()
    }

    /// Every open session.
    pub(crate) fn all(&self) -> Vec<Rc<Session>> {
        self.open.borrow().values().cloned().collect()
    }

    /// The open session with this id.
    pub(crate) fn of(&self, id: SessionId) -> Option<Rc<Session>> {
        self.open.borrow().get(&id).cloned()
    }

    /// The open session with this id, if it was opened under this policy.
    pub(crate) fn under(&self, id: SessionId, policy: &PolicyName) -> Option<Rc<Session>> {
        self.open
            .borrow()
            .get(&id)
            .filter(|session| session.loaded.policy.name() == policy)
            .cloned()
    }

    /// Closes a session: its channel, and its right to ask. No other one notices.
    pub(crate) fn close(&self, id: SessionId) -> Option<Rc<Session>> {
        let session = self.open.borrow_mut().remove(&id)?;
        session.close();
        Some(session)
    }
}
