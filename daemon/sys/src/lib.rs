//! Safe wrappers over the kernel, and the only `unsafe` code of the project.
//!
//! nix where nix has the call, libc where it has not. A module is one thing of the kernel; each
//! that holds unsafe code says why in its head (`UNSAFETY:`).
//!
//! **Invariant:** nothing here decides: no policy, no configuration, no path of ours.

pub mod bpf;
pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod clone;
pub mod fd;
pub mod landlock;
pub mod memfd;
pub mod memory;
pub mod mount;
pub mod mountinfo;
pub mod path;
pub mod peer;
pub mod pidfd;
pub mod process;
pub mod pty;
pub mod seccomp;
pub mod user_namespace;
