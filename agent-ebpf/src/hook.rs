//! The hooks, by number and by name.

macro_rules! hooks {
    ($($(#[doc = $doc:literal])* $hook:ident = $number:literal, $name:literal;)*) => {
        /// A hook of ours. Events carry its number: a byte that is no hook must not be undefined
        /// behaviour. Up to [`Hook::LSM_FROM`] they are hooks of a cgroup, from there of BPF LSM.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u32)]
        pub enum Hook {
            $($(#[doc = $doc])* $hook = $number,)*
        }

        impl Hook {
            /// Every hook.
            pub const ALL: &[Self] = &[$(Self::$hook,)*];

            /// Its name in logs, evidence and pins. An LSM hook has the kernel's own
            /// (include/linux/lsm_hook_defs.h).
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$hook => $name,)*
                }
            }
        }
    };
}

hooks! {
    /// bind(2) on IPv4.
    Bind4 = 1, "bind4";
    /// bind(2) on IPv6.
    Bind6 = 2, "bind6";
    /// connect(2) on IPv4.
    Connect4 = 3, "connect4";
    /// connect(2) on IPv6.
    Connect6 = 4, "connect6";
    /// connect(2) on AF_UNIX.
    ConnectUnix = 5, "connect_unix";
    /// sendmsg(2) to an address, IPv4.
    SendMsg4 = 6, "sendmsg4";
    /// sendmsg(2) to an address, IPv6.
    SendMsg6 = 7, "sendmsg6";
    /// sendmsg(2) to an address, AF_UNIX.
    SendMsgUnix = 8, "sendmsg_unix";
    /// socket(2) of an IP family.
    SockCreate = 9, "sock_create";
    /// open(2) and mknod(2) of device nodes.
    Device = 10, "device";
    /// setsockopt(2).
    SetSockOpt = 11, "setsockopt";
    /// sysctl(2) by way of /proc/sys.
    Sysctl = 12, "sysctl";

    /// bpf(2).
    LsmBpf = 20, "bpf";
    /// execve(2), before the credentials of the program are computed.
    LsmBprmCheck = 21, "bprm_check_security";
    /// open(2).
    LsmFileOpen = 22, "file_open";
    /// A descriptor that comes by SCM_RIGHTS (unix(7)).
    LsmFileReceive = 23, "file_receive";
    /// open(2) that makes a file.
    LsmInodeCreate = 24, "inode_create";
    /// io_uring_setup(2), userfaultfd(2): what they make is an anonymous inode.
    LsmInodeInitAnon = 25, "inode_init_security_anon";
    /// link(2).
    LsmInodeLink = 26, "inode_link";
    /// mkdir(2).
    LsmInodeMkdir = 27, "inode_mkdir";
    /// mknod(2).
    LsmInodeMknod = 28, "inode_mknod";
    /// rename(2).
    LsmInodeRename = 29, "inode_rename";
    /// rmdir(2).
    LsmInodeRmdir = 30, "inode_rmdir";
    /// chmod(2), chown(2), truncate(2), utimensat(2).
    LsmInodeSetattr = 31, "inode_setattr";
    /// symlink(2).
    LsmInodeSymlink = 32, "inode_symlink";
    /// unlink(2).
    LsmInodeUnlink = 33, "inode_unlink";
    /// move_mount(2).
    LsmMoveMount = 34, "move_mount";
    /// chmod(2) by a path or a descriptor.
    LsmPathChmod = 35, "path_chmod";
    /// perf_event_open(2).
    LsmPerfEventOpen = 36, "perf_event_open";
    /// ptrace(2), process_vm_readv(2), /proc/PID/mem and what else looks into a process.
    LsmPtraceAccess = 37, "ptrace_access_check";
    /// PTRACE_TRACEME.
    LsmPtraceTraceme = 38, "ptrace_traceme";
    /// mount(2).
    LsmSbMount = 39, "sb_mount";
    /// pivot_root(2).
    LsmSbPivotroot = 40, "sb_pivotroot";
    /// umount2(2).
    LsmSbUmount = 41, "sb_umount";
    /// accept(2).
    LsmSocketAccept = 42, "socket_accept";
    /// bind(2) of any family.
    LsmSocketBind = 43, "socket_bind";
    /// connect(2) of any family.
    LsmSocketConnect = 44, "socket_connect";
    /// socket(2) of any family.
    LsmSocketCreate = 45, "socket_create";
    /// listen(2) of any family.
    LsmSocketListen = 46, "socket_listen";
    /// recvmsg(2) and read(2) of a socket.
    LsmSocketRecvmsg = 47, "socket_recvmsg";
    /// sendmsg(2) and write(2) to a socket.
    LsmSocketSendmsg = 48, "socket_sendmsg";
    /// kill(2) and its like.
    LsmTaskKill = 49, "task_kill";
    /// ioprio_set(2).
    LsmTaskSetioprio = 50, "task_setioprio";
    /// setpriority(2).
    LsmTaskSetnice = 51, "task_setnice";
    /// prlimit(2).
    LsmTaskSetrlimit = 52, "task_setrlimit";
    /// sched_setaffinity(2), sched_setscheduler(2).
    LsmTaskSetscheduler = 53, "task_setscheduler";
    /// A datagram to an AF_UNIX socket.
    LsmUnixMaySend = 54, "unix_may_send";
    /// connect(2) to an AF_UNIX stream.
    LsmUnixStreamConnect = 55, "unix_stream_connect";
    /// io_uring_setup(2), since Linux 6.16.
    LsmUringAllowed = 56, "uring_allowed";
    /// IORING_OP_URING_CMD.
    LsmUringCmd = 57, "uring_cmd";
    /// IORING_REGISTER_PERSONALITY.
    LsmUringOverrideCreds = 58, "uring_override_creds";
    /// IORING_SETUP_SQPOLL.
    LsmUringSqpoll = 59, "uring_sqpoll";
    /// CLONE_NEWUSER.
    LsmUsernsCreate = 60, "userns_create";
}

impl Hook {
    /// The number of the first LSM hook.
    pub const LSM_FROM: u32 = 20;

    /// One more than the highest number: what counts of hooks are sized by.
    pub const NUMBERS: u32 = 61;

    /// Its number in an event.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The hook of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|hook| hook.number() == number)
    }

    /// Whether it is a hook of BPF LSM: one for the whole machine, where the others are a
    /// cgroup's.
    pub const fn is_lsm(self) -> bool {
        self.number() >= Self::LSM_FROM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_hook_and_no_other_number_does() {
        for hook in Hook::ALL {
            assert_eq!(Hook::from_number(hook.number()), Some(*hook));
            assert!(hook.number() < Hook::NUMBERS);
        }
        for none in [0, 13, Hook::NUMBERS] {
            assert_eq!(Hook::from_number(none), None);
        }
    }

    #[test]
    fn no_two_hooks_have_one_name() {
        for (index, hook) in Hook::ALL.iter().enumerate() {
            let same = |other: &Hook| other.name() == hook.name();
            assert!(!Hook::ALL[..index].iter().any(same), "{hook:?}");
        }
    }
}
