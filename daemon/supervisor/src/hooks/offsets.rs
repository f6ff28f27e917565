//! Where members of the running kernel's structs lie, for the LSM programs.

use agent_ebpf::OFFSETS;
use custody_sys::bpf::btf::{Btf, BtfError};

/// The values of the programs' globals.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    /// In the order of [`OFFSETS`].
    pub(super) members: Vec<u32>,
    /// See [`agent_ebpf::global::SETATTR_MAPPED`].
    pub(super) setattr_mapped: u32,
}

impl Offsets {
    /// Looks all of them up.
    ///
    /// # Errors
    /// The first member that the kernel does not have: then no LSM program loads.
    pub(super) fn look_up(btf: &Btf) -> Result<Self, BtfError> {
        let members = OFFSETS.iter().map(|(_, of, member)| {
            let offset = btf.member(of, member)?;
            u32::try_from(offset).map_err(|_negative| BtfError::Missing {
                what: "member",
                name: format!("{of}.{member}"),
            })
        });
        let attr = btf.parameter("bpf_lsm_inode_setattr", "attr")?;
        Ok(Self {
            members: members.collect::<Result<_, _>>()?,
            setattr_mapped: u32::from(attr == 2),
        })
    }
}
