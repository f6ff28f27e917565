//! custodyd: the root part of the service. It makes cgroups, namespaces, hooks and channels, and
//! starts and ends programs.
//!
//! | module | what |
//! |---|---|
//! | [`cgroups`] | our folders in the cgroup2 hierarchy, and what an earlier run left in them |
//! | [`checks`] | what must hold before anything is started |
//! | [`denials`] | denials in the journal, bounded and neutralised |
//! | [`hooks`] | eBPF: loaded, attached, pinned; the egress map; events of denials |
//! | [`kept`] | the operators' listener, kept by the service manager from run to run |
//! | [`limits`] | memory and processes of a session, by the host's controllers |
//! | [`places`] | folders, the lock, the operators' socket |
//! | [`process`] | one program, started through custody-launch |
//! | [`refused`] | configurations that a profile refuses, looked for with procfs and the kernel |
//! | [`serve`] | the loop: services, sessions, fronts, workers |
//! | [`uids`] | which uid of a range is next |
//! | [`words`] | what our programs say on standard error, in our log |
//! | [`workspace`] | which folder may be a workspace |
//!
//! **Invariant:** it holds no credential, speaks to no network and parses nothing that an agent,
//! an operator or a server wrote: only the fixed orders of `custody_wire::supervise`, the
//! reports of custody-launch, and root's own files. One thread; `poll`, no runtime.
#![forbid(unsafe_code)]

pub mod cgroups;
pub mod checks;
pub mod denials;
pub mod hooks;
pub mod kept;
pub mod limits;
pub mod places;
pub mod process;
pub mod refused;
pub mod revoked;
pub mod serve;
pub mod uids;
pub mod words;
pub mod workspace;
