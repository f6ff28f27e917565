//! The reviewers' page: login links, tickets, and what is asked with one.
//!
//! A link is made for whoever asks at the operators' socket, as the kernel says who he is. Its token is
//! taken once, by the page, for a ticket; with that the page asks what that reviewer may. Both are kept
//! here alone, as digests, and are gone when this program ends. The page is whoever is at the other end of
//! the channel that custodyd hands over when it starts it: no message and no uid says so.

use std::{
    collections::HashMap,
    os::{fd::OwnedFd, unix::net},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use custody_config::Caller;
use custody_wire::{
    frame::{self, FrameError},
    operator::{Answer, OfPage, Request, Ticket},
};
use gate::digest::{Digest, Domain};
use tokio::{net::UnixStream, sync::mpsc};

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
                url: format!("http://{page}/login/{token}"),
            }
        }
        Err(error) => refused(&format!("no random number for the link: {error}")),
    }
}

/// Serves one page after the other, as custodyd starts them, for ever.
pub async fn serve_pages(service: Arc<Service>, mut pages: mpsc::UnboundedReceiver<OwnedFd>) {
    while let Some(channel) = pages.recv().await {
        let service = Arc::clone(&service);
        // The channel of a page that has ended ends by itself.
        drop(tokio::spawn(async move {
            let why = serve_page(&service, channel).await;
            let why = custody_service::reason::chain_of(&why);
            tracing::info!(why, "the channel to the reviewers' page ended");
        }));
    }
}

/// One question after the other: what the page can keep busy is one thread.
async fn serve_page(service: &Service, channel: OwnedFd) -> FrameError {
    let stream = net::UnixStream::from(channel);
    let polled = stream
        .set_nonblocking(true)
        .and_then(|()| UnixStream::from_std(stream));
    let mut stream = match polled {
        Ok(stream) => stream,
        Err(error) => return FrameError::Io(error),
    };
    loop {
        let request: Request = match frame::read_async(&mut stream).await {
            Ok(request) => request,
            Err(error) => return error,
        };
        let answer = match request {
            Request::Enter { token } => enter(service, token),
            Request::Page { ticket, what } => ask(service, ticket, *what).await,
            Request::Approve { .. }
            | Request::List
            | Request::Login
            | Request::Pending { .. }
            | Request::Refuse { .. }
            | Request::Revoke(_)
            | Request::Run(_)
            | Request::Show { .. }
            | Request::Signal { .. }
            | Request::Status
            | Request::Stop { .. }
            | Request::Tell { .. }
            | Request::Unlock { .. } => {
                tracing::warn!("the reviewers' page asks what is no page's to ask");
                return FrameError::Closed;
            }
        };
        if let Err(error) = frame::write_async(&mut stream, &answer).await {
            return error;
        }
    }
}

/// The page takes a link's token.
fn enter(service: &Service, token: Ticket) -> Answer {
    match service.desk.web.enter(token, Instant::now()) {
        Ok(Some(ticket)) => Answer::Entered { ticket },
        Ok(None) => refused(
            "the link was used, or is older than three minutes; `custody review --web` prints another",
        ),
        Err(error) => refused(&format!("no random number for the page: {error}")),
    }
}

/// The page asks for a reviewer: he may what he may at the socket, and no more.
async fn ask(service: &Service, ticket: Ticket, what: OfPage) -> Answer {
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

/// What the operators' socket answers to what only the page asks.
pub(crate) fn not_the_page() -> Answer {
    refused("only the reviewers' page asks so, on a channel of its own")
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
