//! `custodyd.toml`: the operator's words, parsed once.
//!
//! Whatever is not in the file has a default that is written here; whatever is in the file and
//! unknown is refused. The file is root's alone to write, and so is every folder above it.
//!
//! **Invariant:** no secret is in the configuration, only where one lies.
#![forbid(unsafe_code)]

mod access;
mod file;
mod review;
mod trust;
mod uids;

pub use access::{Access, Asked, Caller};
pub use file::{Config, ConfigError, CredentialSource, Instance, Observation, Paths, Users};
pub use review::{Approvals, Notify, Page, Question, Review, Reviews};
pub use trust::{Untrusted, root_owned};
pub use uids::{UidRange, UidRangeError, Uids};

/// Where the configuration is looked for.
pub const PATH: &str = "/etc/custody/custodyd.toml";
