//! Rows in the file: written signed, read checked.

use gate::id::{PolicyName, SessionId, ToolName};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::Sqlite;
use crate::{
    Approval, Asked, Cursor, Heading, Key, Page, State, StoreError, Which,
    signed::{self, Signed},
    store::AT_MOST,
};

/// What is open and to be ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Open<'a> {
    /// Of a daemon's earlier life.
    Instance(&'a str),
    /// Of a session.
    Session(SessionId),
}

/// Where pages go on, and how many rows are looked at in one query: the rows that a reviewer may not see
/// cost him little.
const STRIDE: usize = 512;

impl Sqlite {
    pub(super) fn read(&self, key: Key) -> Result<Approval, StoreError> {
        let connection = self.connection();
        self.row_of(&connection, key)
    }

    pub(super) fn row_of(&self, connection: &Connection, key: Key) -> Result<Approval, StoreError> {
        let found = connection
            .prepare_cached(
                "SELECT session, position, state, body, signature, since, instance, caller, policy, tool, classes \
                 FROM approvals WHERE session = ?1 AND position = ?2",
            )
            .and_then(|mut query| {
                query
                    .query_row(params![number(key.session.0), number(key.position)], stored)
                    .optional()
            })
            .map_err(|error| self.failed(error))?;
        match found {
            Some(found) => self.checked(found),
            None => Err(StoreError::NotFound { key }),
        }
    }

    pub(super) fn read_at(&self, position: u64) -> Result<Vec<Approval>, StoreError> {
        let connection = self.connection();
        let found = connection
            .prepare_cached(
                "SELECT session, position, state, body, signature, since, instance, caller, policy, tool, classes \
                 FROM approvals WHERE position = ?1 ORDER BY since DESC LIMIT ?2",
            )
            .and_then(|mut query| {
                query
                    .query_map(params![number(position), AT_MOST], stored)?
                    .collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(|error| self.failed(error))?;
        found.into_iter().map(|it| self.checked(it)).collect()
    }

    pub(super) fn page(
        &self,
        which: Which,
        after: Option<Cursor>,
        most: usize,
        wanted: &dyn Fn(&Heading) -> bool,
    ) -> Result<Page, StoreError> {
        let connection = self.connection();
        let mut page = Page::default();
        let mut behind = after;
        loop {
            let headings =
                headings(&connection, which, behind).map_err(|error| self.failed(error))?;
            let all = headings.len();
            for (cursor, heading) in headings {
                // One more than fits: there is a next page, and it begins behind the last of this.
                if page.rows.len() == most {
                    if heading.as_ref().is_none_or(wanted) {
                        page.next = page.rows.last().map(|last| Cursor {
                            since: last.asked.since,
                            key: last.asked.key(),
                        });
                        return Ok(page);
                    }
                    continue;
                }
                behind = Some(cursor);
                // A heading that cannot be read is a row that was edited: reading it says so.
                if heading.as_ref().is_none_or(wanted) {
                    let row = self.row_of(&connection, cursor.key)?;
                    page.rows.push(row);
                }
            }
            if all < STRIDE {
                return Ok(page);
            }
        }
    }

    pub(super) fn begin(&self, asked: &Asked, now: u64) -> Result<(), StoreError> {
        let row = Approval::new(asked.clone());
        let key = asked.key();
        let signed = self.sign(&row)?;
        self.writing(now, |connection| {
            let written = connection
                .prepare_cached(
                    "INSERT INTO approvals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
                     ON CONFLICT DO NOTHING",
                )
                .and_then(|mut insert| {
                    insert.execute(params![
                        number(key.session.0),
                        number(key.position),
                        row.state.as_str(),
                        number(asked.since),
                        asked.instance,
                        asked.caller,
                        asked.policy.as_str(),
                        asked.tool.as_str(),
                        asked.classes.join(" "),
                        signed.body,
                        signed.signature,
                    ])
                })
                .map_err(|error| self.failed(error))?;
            if written == 1 {
                Ok(())
            } else {
                Err(StoreError::Exists { key })
            }
        })
    }

    pub(super) fn replace(
        &self,
        connection: &Connection,
        row: &Approval,
        was: State,
    ) -> Result<(), StoreError> {
        let key = row.asked.key();
        let signed = self.sign(row)?;
        let written = connection
            .prepare_cached(
                "UPDATE approvals SET state = ?3, body = ?4, signature = ?5 \
                 WHERE session = ?1 AND position = ?2 AND state = ?6",
            )
            .and_then(|mut update| {
                update.execute(params![
                    number(key.session.0),
                    number(key.position),
                    row.state.as_str(),
                    signed.body,
                    signed.signature,
                    was.as_str(),
                ])
            })
            .map_err(|error| self.failed(error))?;
        if written == 1 {
            Ok(())
        } else {
            Err(StoreError::NotFound { key })
        }
    }

    /// The keys of what is open.
    pub(super) fn open_keys(
        &self,
        connection: &Connection,
        open: Open<'_>,
    ) -> Result<Vec<Key>, StoreError> {
        const WHICH: &str = "state IN ('waiting', 'approved', 'taken')";
        let key = |row: &Row<'_>| {
            Ok(Key {
                session: SessionId(unsigned(row.get(0)?)),
                position: unsigned(row.get(1)?),
            })
        };
        let found = match open {
            Open::Instance(instance) => connection
                .prepare(&format!(
                    "SELECT session, position FROM approvals WHERE {WHICH} AND instance = ?1"
                ))
                .and_then(|mut query| query.query_map([instance], key)?.collect()),
            Open::Session(session) => connection
                .prepare(&format!(
                    "SELECT session, position FROM approvals WHERE session = ?1 AND {WHICH}"
                ))
                .and_then(|mut query| query.query_map([number(session.0)], key)?.collect()),
        };
        found.map_err(|error| self.failed(error))
    }

    /// The keys of what is over and began to wait before `before`, oldest first.
    pub(super) fn old_keys(
        &self,
        connection: &Connection,
        before: u64,
        most: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "SELECT session, position FROM approvals \
                 WHERE since < ?1 AND state NOT IN ('waiting', 'approved', 'taken') \
                 ORDER BY since LIMIT ?2",
            )
            .and_then(|mut query| {
                query
                    .query_map(params![number(before), most], |row| {
                        Ok(Key {
                            session: SessionId(unsigned(row.get(0)?)),
                            position: unsigned(row.get(1)?),
                        })
                    })?
                    .collect()
            })
            .map_err(|error| self.failed(error))
    }

    fn sign(&self, row: &Approval) -> Result<Signed, StoreError> {
        signed::sign(row, &self.key).ok_or_else(|| StoreError::Signature {
            key: row.asked.key(),
            why: "it cannot be written",
        })
    }

    /// The row, if every column is what the signed text says.
    fn checked(&self, found: Stored) -> Result<Approval, StoreError> {
        let key = found.key;
        let refused = |why| StoreError::Signature { key, why };
        let row = signed::read(&found.body, &found.signature, &self.public).map_err(refused)?;
        let asked = &row.asked;
        let agrees = asked.key() == key
            && row.state.as_str() == found.state
            && asked.since == found.since
            && asked.instance == found.instance
            && i64::from(asked.caller) == found.caller
            && asked.policy.as_str() == found.policy
            && asked.tool.as_str() == found.tool
            && asked.classes.join(" ") == found.classes;
        if agrees {
            Ok(row)
        } else {
            Err(refused("a column differs from the signed text"))
        }
    }
}

/// A row as it lies there.
struct Stored {
    key: Key,
    state: String,
    body: String,
    signature: Vec<u8>,
    since: u64,
    instance: String,
    caller: i64,
    policy: String,
    tool: String,
    classes: String,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        key: Key {
            session: SessionId(unsigned(row.get(0)?)),
            position: unsigned(row.get(1)?),
        },
        state: row.get(2)?,
        body: row.get(3)?,
        signature: row.get(4)?,
        since: unsigned(row.get(5)?),
        instance: row.get(6)?,
        caller: row.get(7)?,
        policy: row.get(8)?,
        tool: row.get(9)?,
        classes: row.get(10)?,
    })
}

/// The headings behind `after`, at most [`STRIDE`]; none in place of one that cannot be read.
fn headings(
    connection: &Connection,
    which: Which,
    after: Option<Cursor>,
) -> rusqlite::Result<Vec<(Cursor, Option<Heading>)>> {
    // Before the first: no row waits since before 1970.
    let (since, session, position) = after.map_or((-1, 0, 0), |it| {
        (
            number(it.since),
            number(it.key.session.0),
            number(it.key.position),
        )
    });
    let only = match which {
        Which::All => "",
        Which::Waiting => "state = 'waiting' AND ",
    };
    let mut query = connection.prepare_cached(&format!(
        "SELECT since, session, position, caller, instance, policy, tool, classes FROM approvals \
         WHERE {only}(since, session, position) > (?1, ?2, ?3) \
         ORDER BY since, session, position LIMIT ?4"
    ))?;
    let stride = i64::try_from(STRIDE).unwrap_or(i64::MAX);
    let rows = query.query_map(params![since, session, position, stride], |row| {
        let key = Key {
            session: SessionId(unsigned(row.get(1)?)),
            position: unsigned(row.get(2)?),
        };
        let cursor = Cursor {
            since: unsigned(row.get(0)?),
            key,
        };
        let (caller, policy, tool): (i64, String, String) = (row.get(3)?, row.get(5)?, row.get(6)?);
        let classes: String = row.get(7)?;
        let heading = match (
            u32::try_from(caller),
            PolicyName::parse(&policy),
            ToolName::parse(&tool),
        ) {
            (Ok(caller), Ok(policy), Ok(tool)) => Some(Heading {
                key,
                caller,
                instance: row.get(4)?,
                policy,
                tool,
                classes: classes
                    .split(' ')
                    .filter(|it| !it.is_empty())
                    .map(Into::into)
                    .collect(),
            }),
            _ => None,
        };
        Ok((cursor, heading))
    })?;
    rows.collect()
}

/// SQLite's integers are signed: the same 64 bits.
const fn number(value: u64) -> i64 {
    value.cast_signed()
}

const fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}
