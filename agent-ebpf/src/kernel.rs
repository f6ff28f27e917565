//! What the loader tells the LSM programs of the running kernel: where members of its structs
//! lie. They are looked up in the kernel's own types at load time, and the verifier checks each
//! read against the same types (Documentation/bpf/btf.rst).

// UNSAFETY: the loader finds a global by its symbol, which is exported under its own name.

/// The names of the globals that are not offsets.
pub mod global {
    /// `u64`: the id of the agents' cgroup; 0 is none.
    pub const AGENTS: &str = "AGENTS";
    /// `i32`: the level of the agents' cgroup in the whole hierarchy; 0 is unknown.
    pub const LEVEL: &str = "LEVEL";
    /// `u32`: the mark (SO_MARK, socket(7)) of custodyd's own channels to a session; 0 is none.
    pub const MARK: &str = "MARK";
}

/// One offset: the name of its global, the struct, the member.
pub type Offset = (&'static str, &'static str, &'static str);

macro_rules! offsets {
    ($($global:ident = $of:literal . $member:literal;)*) => {
        /// Every offset, a `u32` global each.
        pub const OFFSETS: &[Offset] = &[$((stringify!($global), $of, $member),)*];

        /// The globals themselves, for the programs.
        #[macro_export]
        #[doc(hidden)]
        macro_rules! offset_globals {
            () => {
                $(
                    #[unsafe(no_mangle)]
                    pub(crate) static $global: aya_ebpf::Global<u32> = aya_ebpf::Global::new(0);
                )*
            };
        }
    };
}

offsets! {
    AT_BPRM_FILE = "linux_binprm"."file";
    AT_CGROUP_ANCESTORS = "cgroup"."ancestors";
    AT_CGROUP_KN = "cgroup"."kn";
    AT_CGROUP_LEVEL = "cgroup"."level";
    AT_CRED_UID = "cred"."uid";
    AT_CSS_SET_CGROUP = "css_set"."dfl_cgrp";
    AT_DENTRY_INODE = "dentry"."d_inode";
    AT_DENTRY_NAME = "dentry"."d_name";
    AT_DENTRY_PARENT = "dentry"."d_parent";
    AT_FILE_CRED = "file"."f_cred";
    AT_FILE_FLAGS = "file"."f_flags";
    AT_FILE_INODE = "file"."f_inode";
    AT_FILE_MODE = "file"."f_mode";
    AT_FILE_PATH = "file"."f_path";
    AT_IATTR_MODE = "iattr"."ia_mode";
    AT_IATTR_VALID = "iattr"."ia_valid";
    AT_INODE_INO = "inode"."i_ino";
    AT_INODE_MODE = "inode"."i_mode";
    AT_INODE_SB = "inode"."i_sb";
    AT_KERNFS_ID = "kernfs_node"."id";
    AT_PATH_DENTRY = "path"."dentry";
    AT_QSTR_NAME = "qstr"."name";
    AT_SB_DEV = "super_block"."s_dev";
    AT_SB_MAGIC = "super_block"."s_magic";
    AT_SOCK_CGROUP = "sock"."sk_cgrp_data";
    AT_SOCK_FAMILY = "sock_common"."skc_family";
    AT_SOCK_MARK = "sock"."sk_mark";
    AT_SOCK_PROTOCOL = "sock"."sk_protocol";
    AT_SOCKET_FILE = "socket"."file";
    AT_SOCKET_SK = "socket"."sk";
    AT_TASK_CGROUPS = "task_struct"."cgroups";
}
