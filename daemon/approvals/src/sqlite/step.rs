//! The steps: what may follow what, and one transaction for each.

use gate::mutant::Mutant;
use rusqlite::{Connection, TransactionBehavior, params};

use super::{Sqlite, rows::Open};
use crate::{Answered, Approval, Asked, Key, Over, State, StoreError, Word};

/// How far a clock may go back unnoticed, in milliseconds: two processes that read it in another order
/// than they write, a step of NTP.
const SLACK: u64 = 5_000;

/// A step that was judged: the row that is to be written, and what whoever asked is told.
pub(super) enum Judged {
    /// It is as it should be already.
    Already(Approval),
    /// It is to become this.
    Becomes(Approval),
    /// It is to become this, and what was asked is refused: it came too late.
    TooLate(Approval),
}

impl Sqlite {
    /// Reads the row, judges, and writes what comes of it: once, whoever else tries.
    pub(super) fn step(
        &self,
        key: Key,
        now: u64,
        judge: impl FnOnce(Approval) -> Result<Judged, StoreError>,
    ) -> Result<Approval, StoreError> {
        let (row, late) = self.writing(now, |connection| {
            let row = self.row_of(connection, key)?;
            let was = row.state;
            let (row, late) = match judge(row)? {
                Judged::Already(row) => return Ok((row, false)),
                Judged::Becomes(row) => (row, false),
                Judged::TooLate(row) => (row, true),
            };
            if row.state == State::Taken {
                self.note_taken(connection, key, row.given_back)?;
            }
            self.replace(connection, &row, was)?;
            Ok((row, late))
        })?;
        if late {
            Err(StoreError::Lapsed { key })
        } else {
            Ok(row)
        }
    }

    /// Ends all that is open.
    pub(super) fn end_all(&self, open: Open<'_>, why: &str, now: u64) -> Result<u64, StoreError> {
        self.writing_whatever_the_clock(now, |connection| {
            let mut ended = 0_u64;
            for key in self.open_keys(connection, open)? {
                // One that was edited stays as it is: it is never used, and keeps no other open.
                let row = match self.row_of(connection, key) {
                    Ok(row) => row,
                    Err(StoreError::Signature { .. }) => continue,
                    Err(error) => return Err(error),
                };
                let was = row.state;
                let end = match was {
                    State::Taken => State::InDoubt,
                    State::Approved | State::Waiting => State::Lapsed,
                    State::Done
                    | State::Failed
                    | State::InDoubt
                    | State::Lapsed
                    | State::Refused => continue,
                };
                self.replace(connection, &over(row, end, why, now), was)?;
                ended = ended.saturating_add(1);
            }
            Ok(ended)
        })
    }

    /// Forgets rows that are over, and with each that it was taken: what somebody puts back has lapsed.
    pub(super) fn forget(&self, before: u64, most: usize) -> Result<u64, StoreError> {
        self.transaction(|connection| {
            let keys = self.old_keys(connection, before, most)?;
            for key in &keys {
                for table in ["approvals", "taken"] {
                    let sql = format!("DELETE FROM {table} WHERE session = ?1 AND position = ?2");
                    connection
                        .prepare_cached(&sql)
                        .and_then(|mut delete| {
                            delete.execute(params![
                                key.session.0.cast_signed(),
                                key.position.cast_signed()
                            ])
                        })
                        .map_err(|error| self.failed(error))?;
                }
            }
            Ok(u64::try_from(keys.len()).unwrap_or(u64::MAX))
        })
    }

    /// One transaction, durable when it returns; nothing at all if `work` fails.
    pub(super) fn writing<T>(
        &self,
        now: u64,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transaction(|connection| {
            let seen: i64 = connection
                .prepare_cached("SELECT seen FROM clock")
                .and_then(|mut query| query.query_row([], |row| row.get(0)))
                .map_err(|error| self.failed(error))?;
            let seen = u64::try_from(seen).unwrap_or(0);
            if now.saturating_add(SLACK) < seen {
                let seconds = seen.saturating_sub(now) / 1_000;
                return Err(StoreError::ClockBack { seconds });
            }
            self.saw(connection, now)?;
            work(connection)
        })
    }

    /// As [`writing`](Self::writing), for what only ever takes authority away.
    fn writing_whatever_the_clock<T>(
        &self,
        now: u64,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transaction(|connection| {
            self.saw(connection, now)?;
            work(connection)
        })
    }

    fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| self.failed(error))?;
        // Dropped, it is rolled back.
        let done = work(&transaction)?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(done)
    }

    fn saw(&self, connection: &Connection, now: u64) -> Result<(), StoreError> {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        connection
            .prepare_cached("UPDATE clock SET seen = ?1 WHERE seen < ?1")
            .and_then(|mut update| update.execute([now]))
            .map(drop)
            .map_err(|error| self.failed(error))
    }

    /// A second note that an approval is used: a row that was put back to what it was is not enough.
    fn note_taken(
        &self,
        connection: &Connection,
        key: Key,
        given_back: u32,
    ) -> Result<(), StoreError> {
        let noted = connection
            .prepare_cached("INSERT INTO taken VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
            .and_then(|mut insert| {
                insert.execute(params![
                    key.session.0.cast_signed(),
                    key.position.cast_signed(),
                    given_back,
                ])
            })
            .map_err(|error| self.failed(error))?;
        if noted == 1 || Mutant::ApprovalsTakenTwice.is_on() {
            Ok(())
        } else {
            Err(StoreError::Signature {
                key,
                why: "it says approved, and the approval was used already",
            })
        }
    }
}

/// Why a row cannot become `wanted`.
pub(super) fn wrong(row: &Approval, wanted: State) -> StoreError {
    let by = row.answered.as_ref().map_or_else(String::new, |it| {
        format!(" (answered by uid {})", it.by.uid)
    });
    StoreError::State {
        key: row.asked.key(),
        state: row.state,
        by,
        wanted,
    }
}

fn over(row: Approval, end: State, why: &str, now: u64) -> Approval {
    Approval {
        state: end,
        over: Some(Over {
            at: now,
            why: why.into(),
        }),
        ..row
    }
}

/// waiting → waiting, with more of it known. What queries go by stays.
pub(super) fn renew(row: Approval, asked: &Asked) -> Result<Judged, StoreError> {
    if row.state != State::Waiting {
        return Err(wrong(&row, State::Waiting));
    }
    if row.asked.call != asked.call {
        return Err(StoreError::Changed {
            key: row.asked.key(),
            shown: asked.call,
            found: row.asked.call,
        });
    }
    let asked = Asked {
        waits: asked.waits.clone(),
        ..row.asked
    };
    Ok(Judged::Becomes(Approval { asked, ..row }))
}

/// waiting → approved or refused.
pub(super) fn answer(row: Approval, answered: &Answered, now: u64) -> Result<Judged, StoreError> {
    let wanted = match answered.word {
        Word::Approve { .. } => State::Approved,
        Word::Refuse { .. } => State::Refused,
    };
    if row.state != State::Waiting {
        return Err(wrong(&row, wanted));
    }
    if row.asked.call != answered.call {
        return Err(StoreError::Changed {
            key: row.asked.key(),
            shown: answered.call,
            found: row.asked.call,
        });
    }
    if now >= row.until() {
        return Ok(Judged::TooLate(over(
            row,
            State::Lapsed,
            "nobody answered in its time",
            now,
        )));
    }
    let ended = match &answered.word {
        Word::Approve { .. } => None,
        Word::Refuse { why } => Some(Over {
            at: now,
            why: why.clone(),
        }),
    };
    Ok(Judged::Becomes(Approval {
        answered: Some(answered.clone()),
        state: wanted,
        over: ended,
        ..row
    }))
}

/// Whether it is approved, and nobody has used it.
pub(super) fn may_be_taken(row: &Approval) -> bool {
    let again = row.state == State::Taken && Mutant::ApprovalsTakenTwice.is_on();
    row.state == State::Approved || again
}

/// approved → taken.
pub(super) fn take(row: Approval, now: u64) -> Result<Judged, StoreError> {
    if !may_be_taken(&row) {
        return Err(wrong(&row, State::Taken));
    }
    if now >= row.until() {
        return Ok(Judged::TooLate(over(
            row,
            State::Lapsed,
            "the approval was not used in its time",
            now,
        )));
    }
    Ok(Judged::Becomes(Approval {
        state: State::Taken,
        taken: Some(now),
        ..row
    }))
}

/// taken → waiting: whoever took it says that it did not use it.
pub(super) fn give_back(row: Approval, now: u64) -> Result<Judged, StoreError> {
    if row.state != State::Taken {
        return Err(wrong(&row, State::Waiting));
    }
    let row = Approval {
        answered: None,
        given_back: row.given_back.saturating_add(1),
        state: State::Waiting,
        taken: None,
        ..row
    };
    Ok(Judged::Becomes(if now < row.until() {
        row
    } else {
        over(row, State::Lapsed, "nobody answered in its time", now)
    }))
}

/// To an end.
pub(super) fn finish(row: Approval, end: State, why: &str, now: u64) -> Result<Judged, StoreError> {
    let follows = match (row.state, end) {
        (was, end) if was == end && end.is_over() => return Ok(Judged::Already(row)),
        (
            State::Taken,
            State::Done | State::Failed | State::InDoubt | State::Lapsed | State::Refused,
        )
        // Performed after all: what is known replaces what was not.
        | (State::InDoubt, State::Done | State::Failed)
        | (State::Approved | State::Waiting, State::Lapsed | State::Refused) => true,
        _ => false,
    };
    if follows {
        Ok(Judged::Becomes(over(row, end, why, now)))
    } else {
        Err(wrong(&row, end))
    }
}
