//! One stream of a worker's, as the vault hears of it: kept as it is, never queued, however much is said.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use custody_service::reason;
use custody_wire::perform::Passed;
use gate::{digest::Running, record::Ended};
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use crate::worker::{Performed, Worker};

/// How long a worker that cuts a stream may take to say what was handed on.
const LAST_WORD: Duration = Duration::from_millis(50);

/// What a worker said of a stream.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The status, once there is one.
    status: Cell<Option<u16>>,
    passed: Cell<Option<Passed>>,
    ended: RefCell<Option<Ended>>,
    failed: RefCell<Option<Performed>>,
    news: Notify,
}

impl Heard {
    pub(crate) fn opened(&self, status: u16) {
        self.status.set(Some(status));
        self.news.notify_one();
    }

    pub(crate) fn passed(&self, passed: Passed) {
        self.passed.set(Some(passed));
    }

    pub(crate) fn ended(&self, passed: Passed, ended: Ended) {
        self.passed(passed);
        let ended = if let Ended::Server { why } = ended {
            // A server's words may be in it.
            let why = reason::plain(why.as_str()).as_str().into();
            Ended::Server { why }
        } else {
            ended
        };
        *self.ended.borrow_mut() = Some(ended);
        self.news.notify_one();
    }

    pub(crate) fn failed(&self, performed: Performed) {
        *self.failed.borrow_mut() = Some(performed);
        self.news.notify_one();
    }

    /// Its worker is gone.
    pub(crate) fn cut(&self, why: &str) {
        let why = format!("the worker ended in mid-stream: {}", reason::plain(why));
        let _earlier = self.ended.borrow_mut().get_or_insert(Ended::Cut {
            why: why.as_str().into(),
        });
        self.news.notify_one();
    }
}

/// A stream that was handed over. Dropped, it is cut.
#[derive(Debug)]
pub(crate) struct Stream {
    worker: Rc<Worker>,
    number: u64,
    heard: Rc<Heard>,
    until: Instant,
}

/// A stream whose server has answered.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) status: u16,
    stream: Stream,
}

impl Stream {
    pub(crate) fn new(
        worker: Rc<Worker>,
        number: u64,
        heard: Rc<Heard>,
        patience: Duration,
    ) -> Self {
        Self {
            worker,
            number,
            heard,
            until: Instant::now() + patience,
        }
    }

    /// Waits for the head of the answer.
    pub(crate) async fn opened(self) -> Result<Open, Performed> {
        let opened = async {
            loop {
                if let Some(failed) = self.heard.failed.take() {
                    return Err(failed);
                }
                if let Some(status) = self.heard.status.get() {
                    return Ok(status);
                }
                let ended = self.heard.ended.borrow().clone();
                if let Some(ended) = ended {
                    let why = ended.in_words().into();
                    return Err(Performed::InDoubt { why });
                }
                self.heard.news.notified().await;
            }
        };
        let opened = timeout_at(self.until, opened).await;
        match opened {
            Ok(Ok(status)) => Ok(Open {
                status,
                stream: self,
            }),
            Ok(Err(performed)) => Err(performed),
            Err(_late) => {
                self.worker.die("it did not answer in time");
                let why = "the worker did not answer in time".into();
                Err(Performed::InDoubt { why })
            }
        }
    }
}

impl Open {
    /// Waits for the end.
    pub(crate) async fn ended(&self) -> Ended {
        let Stream {
            worker,
            heard,
            until,
            ..
        } = &self.stream;
        let ended = async {
            loop {
                let ended = heard.ended.borrow().clone();
                match ended {
                    Some(ended) => return ended,
                    None => heard.news.notified().await,
                }
            }
        };
        match timeout_at(*until, ended).await {
            Ok(ended) => ended,
            Err(_late) => {
                // It does not even keep its own time: no more of it.
                worker.die("it did not end a stream in time");
                Ended::Time
            }
        }
    }

    /// Cuts it, and waits a moment for what was handed on.
    pub(crate) async fn cut(&self, why: &str) -> Ended {
        let Stream { worker, number, .. } = &self.stream;
        worker.cut(*number);
        let _said = timeout(LAST_WORD, self.ended()).await.is_ok();
        Ended::Cut { why: why.into() }
    }

    /// What was handed on, as far as the worker has said.
    pub(crate) fn passed(&self) -> Passed {
        self.stream.heard.passed.get().unwrap_or_else(|| Passed {
            bytes: 0,
            scrubbed: 0,
            sha256: Running::default().so_far(),
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let over = self.heard.ended.borrow().is_some() || self.heard.failed.borrow().is_some();
        self.worker.forget(self.number);
        if !over && self.worker.lives() {
            self.worker.cut(self.number);
        }
    }
}
