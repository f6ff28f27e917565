//! Where members of the running kernel's structs lie, for the LSM programs.

use agent_ebpf::OFFSETS;
use custody_sys::bpf::btf::{Btf, BtfError};

/// The values of the programs' globals, in the order of [`OFFSETS`].
///
/// # Errors
/// The first member that the kernel does not have, or a hook with other parameters than the
/// programs know: then no LSM program loads.
pub(super) fn look_up(btf: &Btf) -> Result<Vec<u32>, BtfError> {
    for (hook, parameter, place) in PARAMETERS {
        if btf.parameter(hook, parameter)? != place {
            return Err(BtfError::Missing {
                what: "parameter",
                name: format!("{hook}({parameter}) in place {place}"),
            });
        }
    }
    let members = OFFSETS.iter().map(|(_, of, member)| {
        let offset = btf.member(of, member)?;
        u32::try_from(offset).map_err(|_negative| BtfError::Missing {
            what: "member",
            name: format!("{of}.{member}"),
        })
    });
    members.collect()
}

/// Parameters that have moved before: the id map came to stand in front of `inode_setattr`'s. The
/// verifier does not see a struct of the right size in the wrong place.
const PARAMETERS: [(&str, &str, usize); 5] = [
    ("bpf_lsm_inode_create", "mode", 2),
    ("bpf_lsm_inode_mknod", "mode", 2),
    ("bpf_lsm_inode_setattr", "attr", 2),
    ("bpf_lsm_path_chmod", "mode", 1),
    ("bpf_lsm_ptrace_access_check", "mode", 1),
];
