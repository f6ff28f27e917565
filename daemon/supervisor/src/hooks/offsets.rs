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
        let function = format!("bpf_lsm_{hook}");
        if btf.parameter(&function, parameter)? != place {
            return Err(BtfError::Missing {
                what: "parameter",
                name: format!("{function}({parameter}) in place {place}"),
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

/// Every parameter that a program uses, by the hook's prototype. Some have moved before: the id map
/// came to stand in front of `inode_setattr`'s. The verifier does not see a struct of the right size
/// in the wrong place, nor one dentry where another was.
const PARAMETERS: [(&str, &str, usize); 40] = [
    ("bprm_check_security", "bprm", 0),
    ("file_open", "file", 0),
    ("file_receive", "file", 0),
    ("inode_create", "dentry", 1),
    ("inode_create", "mode", 2),
    ("inode_init_security_anon", "name", 1),
    ("inode_link", "new_dentry", 2),
    ("inode_link", "old_dentry", 0),
    ("inode_mkdir", "dentry", 1),
    ("inode_mknod", "dentry", 1),
    ("inode_mknod", "mode", 2),
    ("inode_rename", "new_dentry", 3),
    ("inode_rename", "old_dentry", 1),
    ("inode_rmdir", "dentry", 1),
    ("inode_setattr", "attr", 2),
    ("inode_setattr", "dentry", 1),
    ("inode_symlink", "dentry", 1),
    ("inode_unlink", "dentry", 1),
    ("path_chmod", "mode", 1),
    ("path_chmod", "path", 0),
    ("ptrace_access_check", "child", 0),
    ("ptrace_access_check", "mode", 1),
    ("ptrace_traceme", "parent", 0),
    ("socket_accept", "sock", 0),
    ("socket_bind", "sock", 0),
    ("socket_connect", "sock", 0),
    ("socket_create", "family", 0),
    ("socket_create", "kern", 3),
    ("socket_create", "protocol", 2),
    ("socket_create", "type", 1),
    ("socket_listen", "sock", 0),
    ("socket_recvmsg", "sock", 0),
    ("socket_sendmsg", "sock", 0),
    ("task_kill", "p", 0),
    ("task_setioprio", "p", 0),
    ("task_setnice", "p", 0),
    ("task_setrlimit", "p", 0),
    ("task_setscheduler", "p", 0),
    ("unix_may_send", "other", 1),
    ("unix_stream_connect", "other", 1),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_parameter_that_a_program_uses_is_looked_up() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent-ebpf/src/programs/lsm");
        let mut used = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap() {
            let source = fs::read_to_string(entry.unwrap().path()).unwrap();
            // A function's text, from its attribute to the brace that ends it.
            for program in source.split("#[lsm(hook = \"").skip(1) {
                let (hook, rest) = program.split_once('"').unwrap();
                let body = rest.split("\n}").next().unwrap();
                for call in body.split("ctx.arg").skip(1) {
                    let place = call.split_once('(').unwrap().1.split(')').next().unwrap();
                    used.insert((hook.to_owned(), place.parse::<usize>().unwrap()));
                }
            }
        }
        let looked_up: BTreeSet<_> = PARAMETERS
            .map(|(hook, _, place)| (hook.to_owned(), place))
            .into();
        assert!(used.len() > 30, "{used:?}");
        assert_eq!(used, looked_up);
    }

    #[test]
    fn the_running_kernel_has_every_parameter_in_its_place_or_no_such_types() {
        let btf = match Btf::read() {
            Ok(btf) => btf,
            Err(error) => {
                println!("not attempted: {error}");
                return;
            }
        };
        if btf.parameter("bpf_lsm_file_open", "file").is_err() {
            println!("not attempted: needs a kernel with BPF LSM (CONFIG_BPF_LSM)");
            return;
        }
        assert_eq!(look_up(&btf).unwrap().len(), OFFSETS.len());
    }
}
