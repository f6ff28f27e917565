//! The eBPF object inside this program.

/// The object as `cargo xtask build-ebpf` made it; empty if this build had none.
pub(super) static BYTES: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/custody.bpf.o"));

/// SHA-256 of [`BYTES`] in hexadecimal, taken at build time.
pub(super) const SHA256: &str = env!("CUSTODY_EBPF_SHA256");
