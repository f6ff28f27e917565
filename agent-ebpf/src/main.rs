//! The programs that the kernel runs at the hooks of a cgroup.
//!
//! Built by `cargo xtask build-ebpf`, which types (facts and versions: a rustc whose `core` is
//! built for `bpfel-unknown-none`, and bpf-linker of the same LLVM; with rustup, a nightly with
//! `rust-src` and `-Zbuild-std=core` instead of the first two lines):
//!
//! ```sh
//! RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
//! CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER=bpf-linker \
//! CARGO_TARGET_BPFEL_UNKNOWN_NONE_RUSTFLAGS='--cfg=bpf_target_arch="x86_64" -Cdebuginfo=2 -Clink-arg=--btf' \
//! cargo build --locked --release --target bpfel-unknown-none --package agent-ebpf --bin agent-ebpf \
//!   --target-dir target/ebpf/build \
//!   --config 'profile.release.panic="abort"' --config 'profile.release.overflow-checks=false' \
//!   --config 'profile.release.lto=true' --config 'profile.release.codegen-units=1'
//! cp target/ebpf/build/bpfel-unknown-none/release/agent-ebpf target/ebpf/custody.bpf.o
//! ```
//!
//! For the host this is an empty program, so that check, clippy and tests need none of it.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod programs;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
