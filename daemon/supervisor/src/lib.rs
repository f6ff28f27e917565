//! custodyd: the root part of the service. It makes cgroups, namespaces, hooks and channels, and
//! starts and ends programs.
//!
//! | module | what |
//! |---|---|
//! | [`checks`] | what must hold before anything is started |
//! | [`hooks`] | eBPF: loaded, attached, pinned; the egress map; events of denials |
//! | [`places`] | folders, the lock, the operators' socket |
//!
//! **Invariant:** it holds no credential, speaks to no network and parses nothing that an agent,
//! an operator or a server wrote: only the fixed orders of `custody_wire::supervise`, the
//! reports of custody-launch, and root's own files. One thread; `poll`, no runtime.
#![forbid(unsafe_code)]

pub mod checks;
pub mod hooks;
pub mod places;
