//! Embeds the eBPF object that `cargo xtask build-ebpf` makes, with its digest. Without one the
//! crate builds all the same, and custodyd refuses to enforce.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

fn main() -> io::Result<()> {
    let variable = "CUSTODY_EBPF_OBJECT";
    println!("cargo::rerun-if-env-changed={variable}");
    println!("cargo::rerun-if-changed=build.rs");
    let object = env::var_os(variable).map_or_else(
        || Path::new("../../target/ebpf/custody.bpf.o").into(),
        PathBuf::from,
    );
    println!("cargo::rerun-if-changed={}", object.display());
    let bytes = match fs::read(&object) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    // Tests that load it are ignored then, and the last line of each test program says how many.
    println!("cargo::rustc-check-cfg=cfg(no_ebpf_object)");
    if bytes.is_empty() {
        println!("cargo::rustc-cfg=no_ebpf_object");
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("custody.bpf.o"), &bytes)?;
    println!(
        "cargo::rustc-env=CUSTODY_EBPF_SHA256={}",
        hex::encode(Sha256::digest(&bytes))
    );
    Ok(())
}
