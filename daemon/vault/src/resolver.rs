//! The resolver as the vault sees it: names out, addresses in, neither trusted.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use custody_wire::{
    frame,
    perform::{Resolve, Resolved},
};
use tokio::{
    net::{UnixStream, unix::OwnedReadHalf},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// How long a name may take; the resolver itself gives up after 8 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names that wait for the channel.
const QUEUE: usize = 64;

type Answer = Result<Vec<IpAddr>, String>;

/// The one resolver, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    link: RefCell<Option<Rc<Link>>>,
}

#[derive(Debug)]
struct Link {
    queue: mpsc::Sender<Resolve>,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Answer>>>,
    next: Cell<u64>,
}

impl Resolver {
    /// A (new) resolver. What waits for the earlier one fails.
    pub(crate) fn replace(self: &Rc<Self>, stream: UnixStream) {
        let (from, mut to) = stream.into_split();
        let (queue, mut names) = mpsc::channel::<Resolve>(QUEUE);
        let link = Rc::new(Link {
            queue,
            waiting: RefCell::default(),
            next: Cell::new(1),
        });
        if let Some(earlier) = self.link.replace(Some(Rc::clone(&link))) {
            earlier.waiting.borrow_mut().clear();
        }
        drop(tokio::task::spawn_local(async move {
            while let Some(name) = names.recv().await {
                if let Err(error) = frame::write_async(&mut to, &name).await {
                    tracing::warn!(%error, "the resolver does not read");
                    return;
                }
            }
        }));
        let resolver = Rc::clone(self);
        drop(tokio::task::spawn_local(async move {
            read(from, &link).await;
            link.waiting.borrow_mut().clear();
            let current = resolver
                .link
                .borrow()
                .as_ref()
                .is_some_and(|l| Rc::ptr_eq(l, &link));
            if current {
                drop(resolver.link.take());
            }
        }));
    }

    /// What the resolver says of `host`.
    pub(crate) async fn resolve(&self, host: &str) -> Answer {
        let Some(link) = self.link.borrow().clone() else {
            return Err("there is no resolver".into());
        };
        let number = link.next.get();
        link.next.set(number.saturating_add(1));
        let (answered, answer) = oneshot::channel();
        let name = Resolve {
            number,
            host: host.into(),
        };
        drop(link.waiting.borrow_mut().insert(number, answered));
        if link.queue.try_send(name).is_err() {
            drop(link.waiting.borrow_mut().remove(&number));
            return Err("the resolver has too much to do; try again".into());
        }
        let outcome = timeout(PATIENCE, answer).await;
        drop(link.waiting.borrow_mut().remove(&number));
        match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(_dropped)) => Err("the resolver ended".into()),
            Err(_late) => Err("the resolver did not answer".into()),
        }
    }
}

async fn read(mut from: OwnedReadHalf, link: &Link) {
    loop {
        match frame::read_async::<Resolved>(&mut from).await {
            Ok(Resolved { number, addresses }) => {
                let waiting = link.waiting.borrow_mut().remove(&number);
                if let Some(answered) = waiting {
                    // Whoever asked may have given up.
                    drop(answered.send(addresses));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the resolver ended");
                return;
            }
        }
    }
}
