//! The reviewers' page: login links, tickets, and what is asked with one.
//!
//! A link is made for whoever asks at this socket, as the kernel says who he is. Its token is taken once,
//! by the page's own uid, for a ticket; with that the page asks what that reviewer may. Both are kept here
//! alone, as digests, and are gone when this program ends.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use custody_config::Caller;
use custody_wire::operator::{Answer, OfPage, Ticket};
use gate::digest::{Digest, Domain};

use super::{
    answer,
    show::{list, show},
};
use crate::serve::Service;

/// How long a link works.
const LINK: Duration = Duration::from_secs(3 * 60);

/// How long a ticket is good that nobody uses, and how long one that somebody does.
const IDLE: Duration = Duration::from_secs(30 * 60);
const LIFE: Duration = Duration::from_secs(8 * 60 * 60);

/// The most of either that one user has; the oldest goes.
const EACH: usize = 8;

/// The page, where there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageAt {
    /// The uid of its program.
    pub uid: u32,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Who may enter, and who has.
#[derive(Debug, Default)]
pub(super) struct Web(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    links: HashMap<Digest, Holder>,
    tickets: HashMap<Digest, Holder>,
}

#[derive(Clone, Debug)]
struct Holder {
    caller: Caller,
    since: Instant,
    used: Instant,
}

impl Web {
    /// A token for a link of `caller`'s.
    fn link(&self, caller: &Caller, now: Instant) -> Result<Ticket, getrandom::Error> {
        give(&mut self.given().links, caller, now)
    }

    /// A ticket for a link's token; it is used up, whatever comes of it.
    fn enter(&self, token: Ticket, now: Instant) -> Result<Option<Ticket>, getrandom::Error> {
        let mut given = self.given();
        let Some(holder) = given.links.remove(&digest(token)) else {
            return Ok(None);
        };
        if now.duration_since(holder.since) >= LINK {
            return Ok(None);
        }
        give(&mut given.tickets, &holder.caller, now).map(Some)
    }

    /// Whose the ticket is, if it is still good.
    fn holder(&self, ticket: Ticket, now: Instant) -> Option<Caller> {
        let mut given = self.given();
        given.tickets.retain(|_, it| {
            now.duration_since(it.used) < IDLE && now.duration_since(it.since) < LIFE
        });
        let holder = given.tickets.get_mut(&digest(ticket))?;
        holder.used = now;
        Some(holder.caller.clone())
    }

    fn leave(&self, ticket: Ticket) {
        drop(self.given().tickets.remove(&digest(ticket)));
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give(
    all: &mut HashMap<Digest, Holder>,
    caller: &Caller,
    now: Instant,
) -> Result<Ticket, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let his = || all.iter().filter(|(_, it)| it.caller.uid == caller.uid);
    if his().count() >= EACH
        && let Some(oldest) = his()
            .min_by_key(|(_, it)| it.since)
            .map(|(digest, _)| *digest)
    {
        drop(all.remove(&oldest));
    }
    let ticket = Ticket(bytes);
    let holder = Holder {
        caller: caller.clone(),
        since: now,
        used: now,
    };
    drop(all.insert(digest(ticket), holder));
    Ok(ticket)
}

/// Looked up by its digest: how long it takes says nothing of a secret.
fn digest(ticket: Ticket) -> Digest {
    Digest::of(Domain::Key, &ticket.0)
}

/// A link for `caller`.
pub(crate) fn login(service: &Service, caller: &Caller) -> Answer {
    let Some(page) = service.desk.page else {
        return refused("there is no page; `[page]` of custodyd.toml says where one listens");
    };
    match service.desk.web.link(caller, Instant::now()) {
        Ok(token) => {
            tracing::info!(uid = caller.uid, "a login link was made");
            let token: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
            Answer::Login {
                url: format!("http://{}/login/{token}", page.address),
            }
        }
        Err(error) => refused(&format!("no random number for the link: {error}")),
    }
}

/// The page takes a link's token.
pub(crate) fn enter(service: &Service, page: &Caller, token: Ticket) -> Answer {
    if !is_page(service, page) {
        return refused(NOT_THE_PAGE);
    }
    match service.desk.web.enter(token, Instant::now()) {
        Ok(Some(ticket)) => Answer::Entered { ticket },
        Ok(None) => refused(
            "the link was used, or is older than three minutes; `custody review --web` prints another",
        ),
        Err(error) => refused(&format!("no random number for the page: {error}")),
    }
}

/// The page asks for a reviewer: he may what he may at the socket, and no more.
pub(crate) async fn ask(service: &Service, page: &Caller, ticket: Ticket, what: OfPage) -> Answer {
    if !is_page(service, page) {
        return refused(NOT_THE_PAGE);
    }
    let Some(reviewer) = service.desk.web.holder(ticket, Instant::now()) else {
        return refused("you are not logged in any longer; `custody review --web` prints a link");
    };
    match what {
        OfPage::Approve { of, scope } => answer::approve(service, &reviewer, of, scope, None).await,
        OfPage::Leave => {
            service.desk.web.leave(ticket);
            Answer::Done
        }
        OfPage::Pending { after } => list(service, &reviewer, after, false).await,
        OfPage::Refuse { of, why } => answer::refuse(service, &reviewer, of, why).await,
        OfPage::Show { pending, session } => show(service, &reviewer, pending, Some(session)).await,
    }
}

const NOT_THE_PAGE: &str = "only the program of the reviewers' page asks so";

fn is_page(service: &Service, caller: &Caller) -> bool {
    service.desk.page.is_some_and(|page| page.uid == caller.uid)
}

fn refused(why: &str) -> Answer {
    Answer::Refused { why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32) -> Caller {
        Caller {
            uid,
            gids: vec![uid],
        }
    }

    #[test]
    fn a_link_works_once_for_a_while_and_for_whom_it_was_made() {
        let (web, now) = (Web::default(), Instant::now());
        let token = web.link(&caller(1000), now).unwrap();
        let ticket = web.enter(token, now).unwrap().unwrap();
        assert_eq!(web.enter(token, now).unwrap(), None, "once");
        assert_eq!(web.holder(ticket, now).unwrap().uid, 1000);
        assert!(web.holder(token, now).is_none(), "a link is no ticket");
        let late = web.link(&caller(1000), now).unwrap();
        assert_eq!(web.enter(late, now + LINK).unwrap(), None);
        assert_eq!(web.enter(Ticket([0; 32]), now).unwrap(), None);
        web.leave(ticket);
        assert!(web.holder(ticket, now).is_none());
    }

    #[test]
    fn a_ticket_ends_when_nobody_uses_it_and_when_its_day_is_over() {
        let (web, now) = (Web::default(), Instant::now());
        let ticket = |web: &Web| {
            let token = web.link(&caller(1000), now).unwrap();
            web.enter(token, now).unwrap().unwrap()
        };
        let idle = ticket(&web);
        assert!(web.holder(idle, now + IDLE).is_none());
        let busy = ticket(&web);
        let step = IDLE / 2;
        let mut at = now;
        while at < now + LIFE - step {
            at += step;
            assert!(web.holder(busy, at).is_some());
        }
        assert!(web.holder(busy, now + LIFE).is_none());
    }

    #[test]
    fn one_user_has_a_few_of_them_and_takes_none_of_another() {
        let (web, now) = (Web::default(), Instant::now());
        let other = web.link(&caller(1001), now).unwrap();
        let first = web.link(&caller(1000), now).unwrap();
        for second in 1..=EACH {
            let later = now + Duration::from_secs(u64::try_from(second).unwrap());
            let _token = web.link(&caller(1000), later).unwrap();
        }
        assert_eq!(web.enter(first, now).unwrap(), None);
        assert!(web.enter(other, now).unwrap().is_some());
    }
}
