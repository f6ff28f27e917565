//! `gate` is pure: it links into a program without std that has a panic handler of its own.
//!
//! If anything below `gate` used std, the program would have two panic handlers and not compile.
//! Under `cfg(test)` the gate has std, so only this shows it.

use std::fs;

use anyhow::{Context as _, Result};

use super::Finding;
use crate::places::Places;

const PROGRAM: &str = "\
#![no_std]
extern crate alloc;
extern crate gate;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

struct Nothing;

// SAFETY: it never gives out memory, and a null pointer says so (GlobalAlloc::alloc).
unsafe impl core::alloc::GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: core::alloc::Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: core::alloc::Layout) {}
}

#[global_allocator]
static NOTHING: Nothing = Nothing;
";

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let folder = places.target.join("purity");
    fs::create_dir_all(folder.join("src")).context("cannot make the purity program's folder")?;
    let manifest = format!(
        "[package]\nname = \"purity\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"staticlib\"]\n\n\
         [dependencies]\ngate = {{ path = {:?} }}\n\n\
         [profile.dev]\npanic = \"abort\"\n\n[workspace]\n",
        places.root.join("gate")
    );
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    };
    write("Cargo.toml", &manifest)?;
    write("src/lib.rs", PROGRAM)?;
    // The same versions as everywhere; cargo drops what the gate does not need.
    let lock =
        fs::read_to_string(places.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    write("Cargo.lock", &lock)?;

    let output = places
        .cargo()
        .args(["build", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .context("cannot start cargo")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(vec![Finding::new(
        "gate",
        format!("does not link without std:\n{said}"),
    )])
}
