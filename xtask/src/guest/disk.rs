//! A folder as an ext4 disk: what every kernel mounts without a module.
//!
//! The name of a disk says nothing: since 6.12 the kernel looks at the namespaces of an NVMe
//! controller all at once. A root without an initrd is found by its partition (the kernel's
//! `block/early-lookup.c`, `PARTUUID=`), all others by their namespaces' ids.

use std::{fs, os::unix::fs::FileExt as _, path::Path};

use anyhow::{Context as _, Result};

use super::tools;
use crate::stage;

/// Beside what lies in it: inodes, tables, and each file's last block.
const SLACK: u64 = 64 << 20;

/// Where the one partition begins, where there is one.
const START: u64 = 1 << 20;

const SECTOR: u64 = 512;

/// Names the disk with the root; the partition on it is `-01`.
const SIGNATURE: u32 = 0xc057_0d01;

/// What the kernel calls the partition of a [`Kind::Root`].
pub(super) const ROOT: &str = "PARTUUID=c0570d01-01";

/// How a disk is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Whole, by its namespace.
    Plain,
    /// By [`ROOT`]; with so many bytes for what comes later.
    Root(u64),
}

/// Makes the disk `file` of the folder `from`. As root: owners are kept, and what only root may
/// read is read.
pub(super) fn make(from: &Path, file: &Path, kind: Kind) -> Result<()> {
    let mut du = tools::root_tool("du");
    let used = stage::output(du.args(["-s", "--block-size=1", "--count-links"]).arg(from))?;
    let used: u64 = used
        .split_whitespace()
        .next()
        .and_then(|bytes| bytes.parse().ok())
        .with_context(|| format!("cannot read `{used}`"))?;
    let (start, room) = match kind {
        Kind::Plain => (0, 0),
        Kind::Root(room) => (START, room),
    };
    let kib = (used + used / 8 + SLACK + room) / 1024;
    let disk = fs::File::create(file).with_context(|| format!("`{}`", file.display()))?;
    // Sparse: only what is used takes room on the host.
    disk.set_len(start + kib * 1024)
        .context("the disk's size")?;
    if start > 0 {
        let table = table(kib * 1024 / SECTOR)?;
        disk.write_all_at(&table, 0).context("the disk's table")?;
    }
    // No journal: a guest ends without unmounting, and its changes are thrown away.
    let mut mkfs = tools::root_tool("mkfs.ext4");
    mkfs.args(["-q", "-F", "-O", "^has_journal", "-E"])
        .arg(format!("root_owner=0:0,offset={start}"))
        .arg("-d")
        .args([from, file])
        .arg(format!("{kib}k"));
    stage::must(&mut mkfs)
}

/// The first sector of a PC's disk with one partition of so many sectors: its signature, an entry
/// of type 0x83 (Linux), and the two bytes that say that this is one.
fn table(sectors: u64) -> Result<[u8; 512]> {
    let mut table = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = table.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    let start = u32::try_from(START / SECTOR).context("the partition's start")?;
    let sectors = u32::try_from(sectors).context("the disk is too large for its table")?;
    put(0x1b8, &SIGNATURE.to_le_bytes());
    put(0x1be + 4, &[0x83]);
    put(0x1be + 8, &start.to_le_bytes());
    put(0x1be + 12, &sectors.to_le_bytes());
    put(0x1fe, &[0x55, 0xaa]);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_the_partition_that_the_kernel_is_told() {
        let table = table(7).unwrap();
        let signature = u32::from_le_bytes(table[0x1b8..0x1bc].try_into().unwrap());
        assert_eq!(ROOT, format!("PARTUUID={signature:08x}-01"));
        assert_eq!(table[0x1c6..0x1ca], 2048_u32.to_le_bytes());
        assert_eq!(table[0x1ca..0x1ce], 7_u32.to_le_bytes());
        assert!(super::table(1 << 33).is_err());
    }
}
