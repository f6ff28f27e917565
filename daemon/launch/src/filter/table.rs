//! Which system calls are refused, and why: data, no code.
//!
//! A call that is not here is allowed. What a session could do with it is held by its uid, its
//! empty capability sets, its namespaces and Landlock. Each group says what the refusal is for.

use nix::libc;

/// Who is filtered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    /// An agent: unix sockets alone, openat2 unknown.
    Session,
    /// An agent under the profile `dev`: as above, and a process may trace another of the session.
    TracingSession,
    /// A service of ours without a network: unix sockets alone.
    Service,
    /// A service of ours with the host's network.
    NetworkService,
}

#[cfg(test)]
impl Subject {
    pub(crate) const ALL: [Self; 4] = [
        Self::Session,
        Self::TracingSession,
        Self::Service,
        Self::NetworkService,
    ];
}

/// Calls that are refused whatever their arguments.
pub(crate) struct Group {
    pub(crate) calls: &'static [i64],
}

/// The newest call that is known here: mseal, Linux 6.10, the last before the floor of 6.12
/// (arch/x86/entry/syscalls/syscall_64.tbl). What is newer does not exist for a session, x32
/// numbers (bit 30) included.
pub(crate) const NEWEST: u32 = 462;

/// Answered with ENOSYS, so that libraries fall back: their flags are behind a pointer, where a
/// filter cannot look.
pub(crate) const UNKNOWN: &[Group] = &[Group {
    // JUSTIFICATION: clone3: namespaces in a structure; glibc, Python and Node fall back to
    // clone
    calls: &[libc::SYS_clone3],
}];

/// As [`UNKNOWN`], for sessions. Our own services open paths with openat2.
pub(crate) const UNKNOWN_TO_SESSIONS: &[Group] = &[
    Group {
        // JUSTIFICATION: openat2: mode bits in a structure, so set-user-id bits would not be seen
        calls: &[libc::SYS_openat2],
    },
    Group {
        // JUSTIFICATION: what the host's mounts and security modules are, and what of its files
        // is in memory (which another session can tell, and answer by reading): new calls that
        // every program does without
        calls: &[
            SYS_CACHESTAT,
            SYS_LISTMOUNT,
            SYS_LSM_GET_SELF_ATTR,
            SYS_LSM_LIST_MODULES,
            SYS_LSM_SET_SELF_ATTR,
            SYS_STATMOUNT,
        ],
    },
];

// Not yet in every libc crate (arch/x86/entry/syscalls/syscall_64.tbl).
const SYS_CACHESTAT: i64 = 451;
const SYS_LISTMOUNT: i64 = 458;
const SYS_LSM_GET_SELF_ATTR: i64 = 459;
const SYS_LSM_LIST_MODULES: i64 = 461;
const SYS_LSM_SET_SELF_ATTR: i64 = 460;
const SYS_STATMOUNT: i64 = 457;

/// Answered with EPERM.
pub(crate) const REFUSED: &[Group] = &[
    Group {
        // JUSTIFICATION: io_uring: opens and connects without a system call that a filter or
        // hook sees
        calls: &[
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_io_uring_setup,
        ],
    },
    Group {
        // JUSTIFICATION: samples of other processes and of the kernel; other processes' memory
        // given back
        calls: &[
            libc::SYS_perf_event_open,
            libc::SYS_process_madvise,
            libc::SYS_process_mrelease,
        ],
    },
    Group {
        // JUSTIFICATION: namespaces and mounts: a user namespace hands out capabilities and
        // kernel surface
        calls: &[
            libc::SYS_chroot,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fsopen,
            libc::SYS_fspick,
            libc::SYS_mount,
            libc::SYS_mount_setattr,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_pivot_root,
            libc::SYS_setns,
            libc::SYS_umount2,
            libc::SYS_unshare,
        ],
    },
    Group {
        // JUSTIFICATION: files by handle: past every path, mount and Landlock rule
        calls: &[libc::SYS_name_to_handle_at, libc::SYS_open_by_handle_at],
    },
    Group {
        // JUSTIFICATION: kernel keyrings: shared by uid across namespaces
        calls: &[libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key],
    },
    Group {
        // JUSTIFICATION: programs in the kernel, and faults handled by user space: exploit
        // primitives
        calls: &[libc::SYS_bpf, libc::SYS_userfaultfd, libc::SYS_vmsplice],
    },
    Group {
        // JUSTIFICATION: the machine: modules, kexec, reboot, swap, ports, accounting, quotas,
        // its log
        calls: &[
            libc::SYS_acct,
            libc::SYS_delete_module,
            libc::SYS_finit_module,
            libc::SYS_init_module,
            libc::SYS_ioperm,
            libc::SYS_iopl,
            libc::SYS_kexec_file_load,
            libc::SYS_kexec_load,
            libc::SYS_modify_ldt,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_reboot,
            libc::SYS_swapoff,
            libc::SYS_swapon,
            libc::SYS_syslog,
            libc::SYS_vhangup,
        ],
    },
    Group {
        // JUSTIFICATION: calls that no program of this century makes, and that few kernels still
        // have
        calls: &[
            libc::SYS__sysctl,
            libc::SYS_lookup_dcookie,
            libc::SYS_nfsservctl,
            libc::SYS_sysfs,
            libc::SYS_uselib,
            libc::SYS_ustat,
        ],
    },
    Group {
        // JUSTIFICATION: clocks and names of the machine
        calls: &[
            libc::SYS_adjtimex,
            libc::SYS_clock_adjtime,
            libc::SYS_clock_settime,
            libc::SYS_setdomainname,
            libc::SYS_sethostname,
            libc::SYS_settimeofday,
        ],
    },
    Group {
        // JUSTIFICATION: fanotify: sees and holds up others' files
        calls: &[libc::SYS_fanotify_init, libc::SYS_fanotify_mark],
    },
    Group {
        // JUSTIFICATION: placement of other processes' pages
        calls: &[
            libc::SYS_mbind,
            libc::SYS_migrate_pages,
            libc::SYS_move_pages,
        ],
    },
];

/// As [`REFUSED`], for sessions.
pub(crate) const REFUSED_TO_SESSIONS: &[Group] = &[Group {
    // JUSTIFICATION: memfd_secret: memory that not even root can look at; the vault keeps
    // credentials there
    calls: &[libc::SYS_memfd_secret],
}];

/// As [`REFUSED`], for everybody but a session under the profile `dev`.
///
/// There, debuggers and sanitizers look into processes of the session. What they reach is still
/// held by the pid namespace, by Landlock (a process of another domain is not traced,
/// Documentation/userspace-api/landlock.rst) and by the uid; custody-init is not dumpable
/// (PR_SET_DUMPABLE, ptrace(2)). These filters bind a traced process too, after its tracer has
/// had its say (seccomp(2), since Linux 4.8).
pub(crate) const TRACING: &[Group] = &[Group {
    // JUSTIFICATION: other processes' memory, descriptors and registers; init has the session's
    // uid
    calls: &[
        libc::SYS_kcmp,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
    ],
}];

/// What an argument must be for a rule to match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Test {
    /// The low 32 bits are this.
    Is(u32),
    /// The low 32 bits are not this.
    IsNot(u32),
    /// All these bits are set.
    Has(u32),
    /// At least one of these bits is set.
    HasAny(u32),
    /// None of these bits is set.
    Lacks(u32),
    /// The bits of the first are as in the second.
    Masked(u32, u32),
    /// A pointer that is not null.
    IsGiven,
}

/// A call that is refused (EPERM) when all tests of one rule match.
pub(crate) struct Check {
    pub(crate) calls: &'static [i64],
    /// Any of these; in each all of (argument number, test).
    pub(crate) rules: &'static [&'static [(u8, Test)]],
}

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// Of a session and of a service without a network: SOCK_STREAM (1) and SOCK_SEQPACKET (5) are
/// the types with bit 0 and without bits 1 and 3; flags lie above (SOCK_TYPE_MASK, linux/net.h).
pub(crate) const UNIX_SOCKETS: &[Check] = &[
    Check {
        // JUSTIFICATION: families: only unix sockets; a network, netlink or vsock socket has no
        // other lock (AF_VSOCK reaches the hypervisor past every namespace). Types: a datagram
        // socket, and SOCK_RAW which is one, sends to any path without connect
        calls: &[libc::SYS_socket, libc::SYS_socketpair],
        rules: &[
            &[(0, Test::IsNot(AF_UNIX))],
            &[(1, Test::Lacks(1))],
            &[(1, Test::Has(2))],
            &[(1, Test::Has(8))],
        ],
    },
    Check {
        // JUSTIFICATION: programs in the kernel that a socket runs (socket(7))
        calls: &[libc::SYS_setsockopt],
        rules: &[
            &[(1, Test::Is(SOL_SOCKET)), (2, Test::Is(SO_ATTACH_FILTER))],
            &[(1, Test::Is(SOL_SOCKET)), (2, Test::Is(SO_ATTACH_BPF))],
            &[
                (1, Test::Is(SOL_SOCKET)),
                (2, Test::Is(SO_ATTACH_REUSEPORT_CBPF)),
            ],
            &[
                (1, Test::Is(SOL_SOCKET)),
                (2, Test::Is(SO_ATTACH_REUSEPORT_EBPF)),
            ],
        ],
    },
];

/// Of a service with the host's network: SOCK_DGRAM (2) too, for names.
pub(crate) const IP_SOCKETS: &[Check] = &[
    Check {
        // JUSTIFICATION: unix, IPv4 and IPv6; stream, datagram and seqpacket. To where is the
        // cgroup hooks' to say
        calls: &[libc::SYS_socket, libc::SYS_socketpair],
        rules: &[
            &[
                (0, Test::IsNot(AF_UNIX)),
                (0, Test::IsNot(AF_INET)),
                (0, Test::IsNot(AF_INET6)),
            ],
            &[(1, Test::Has(8))],
            &[(1, Test::Masked(7, 0))],
            &[(1, Test::Masked(7, 3))],
            &[(1, Test::Masked(7, 4))],
            &[(1, Test::Has(6))],
            // The protocols of these types that the hooks know; not MPTCP, UDP-Lite, ping (ip(7)).
            &[
                (0, Test::IsNot(AF_UNIX)),
                (2, Test::IsNot(0)),
                (2, Test::IsNot(IPPROTO_TCP)),
                (2, Test::IsNot(IPPROTO_UDP)),
            ],
        ],
    },
    Check {
        // JUSTIFICATION: a socket that listens without bind gets a port by itself, past the bind
        // hooks (inet_autobind(), net/ipv4/af_inet.c); no service of ours listens on a network
        calls: &[libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4],
        rules: &[&[]],
    },
    Check {
        // JUSTIFICATION: source routing (IP_OPTIONS, IPV6_RTHDR) sends to another host than the
        // one that the connect hooks are shown. The C library's resolver sets IP_RECVERR and
        // IPV6_RECVERR alone (resolv/res_enable_icmp.c)
        //
        // And: programs in the kernel that a socket runs; another device than the route's
        // (socket(7)); what TCP does beyond keeping a connection alive, Fast Open and the upper
        // layer protocols above all (tcp(7)); all of udp(7)
        calls: &[libc::SYS_setsockopt],
        rules: &[
            &[(1, Test::Is(SOL_IP)), (2, Test::IsNot(IP_RECVERR))],
            &[(1, Test::Is(SOL_IPV6)), (2, Test::IsNot(IPV6_RECVERR))],
            &[(1, Test::Is(SOL_SOCKET)), (2, Test::Is(SO_ATTACH_FILTER))],
            &[(1, Test::Is(SOL_SOCKET)), (2, Test::Is(SO_ATTACH_BPF))],
            &[
                (1, Test::Is(SOL_SOCKET)),
                (2, Test::Is(SO_ATTACH_REUSEPORT_CBPF)),
            ],
            &[
                (1, Test::Is(SOL_SOCKET)),
                (2, Test::Is(SO_ATTACH_REUSEPORT_EBPF)),
            ],
            &[(1, Test::Is(SOL_SOCKET)), (2, Test::Is(SO_BINDTODEVICE))],
            &[
                (1, Test::Is(IPPROTO_TCP)),
                (2, Test::IsNot(TCP_KEEPCNT)),
                (2, Test::IsNot(TCP_KEEPIDLE)),
                (2, Test::IsNot(TCP_KEEPINTVL)),
                (2, Test::IsNot(TCP_NODELAY)),
                (2, Test::IsNot(TCP_QUICKACK)),
                (2, Test::IsNot(TCP_USER_TIMEOUT)),
            ],
            &[(1, Test::Is(IPPROTO_UDP))],
        ],
    },
];

// Levels and options of setsockopt(2) (ip(7), ipv6(7), socket(7), tcp(7)).
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const IPV6_RECVERR: u32 = 25;
const IP_RECVERR: u32 = 11;
const SOL_IP: u32 = 0;
const SOL_IPV6: u32 = 41;
const SOL_SOCKET: u32 = 1;
const SO_ATTACH_BPF: u32 = 50;
const SO_ATTACH_FILTER: u32 = 26;
const SO_ATTACH_REUSEPORT_CBPF: u32 = 51;
const SO_ATTACH_REUSEPORT_EBPF: u32 = 52;
const SO_BINDTODEVICE: u32 = 25;
const TCP_KEEPCNT: u32 = 6;
const TCP_KEEPIDLE: u32 = 4;
const TCP_KEEPINTVL: u32 = 5;
const TCP_NODELAY: u32 = 1;
const TCP_QUICKACK: u32 = 12;
const TCP_USER_TIMEOUT: u32 = 18;

/// S_ISUID | S_ISGID.
const SET_ID: u32 = 0o6000;
/// O_CREAT | __O_TMPFILE (asm-generic/fcntl.h), the latter without O_DIRECTORY.
const MAKES_A_FILE: u32 = 0o20_000_100;
const CLONE_NEW: u32 = 0x0002_0000 // CLONE_NEWNS
    | 0x0200_0000 // CLONE_NEWCGROUP
    | 0x0400_0000 // CLONE_NEWUTS
    | 0x0800_0000 // CLONE_NEWIPC
    | 0x1000_0000 // CLONE_NEWUSER
    | 0x2000_0000 // CLONE_NEWPID
    | 0x4000_0000; // CLONE_NEWNET
const RLIMIT_CORE: u32 = 4;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;

/// Of everybody but a session under the profile `dev`.
pub(crate) const PERSONALITY: Check = Check {
    // JUSTIFICATION: personalities switch off address randomisation and more; reading it stays
    // possible
    calls: &[libc::SYS_personality],
    rules: &[&[(0, Test::IsNot(0)), (0, Test::IsNot(u32::MAX))]],
};

/// There, a debugger starts its program without address randomisation (ADDR_NO_RANDOMIZE).
pub(crate) const PERSONALITY_OF_TRACEES: Check = Check {
    // JUSTIFICATION: as above
    calls: &[libc::SYS_personality],
    rules: &[&[
        (0, Test::IsNot(0)),
        (0, Test::IsNot(0x4_0000)),
        (0, Test::IsNot(u32::MAX)),
    ]],
};

/// Of everybody.
pub(crate) const CHECKED: &[Check] = &[
    Check {
        // JUSTIFICATION: set-user-id and set-group-id bits: through an id-mapped mount a file
        // would get them as its owner's outside, where nosuid does not count
        calls: &[
            libc::SYS_chmod,
            libc::SYS_creat,
            libc::SYS_fchmod,
            libc::SYS_mkdir,
            libc::SYS_mknod,
        ],
        rules: &[&[(1, Test::HasAny(SET_ID))]],
    },
    Check {
        // JUSTIFICATION: the same, relative to a folder
        calls: &[
            libc::SYS_fchmodat,
            SYS_FCHMODAT2,
            libc::SYS_mkdirat,
            libc::SYS_mknodat,
        ],
        rules: &[&[(2, Test::HasAny(SET_ID))]],
    },
    Check {
        // JUSTIFICATION: the same, at creation; the mode counts only with these flags
        calls: &[libc::SYS_open],
        rules: &[&[(1, Test::HasAny(MAKES_A_FILE)), (2, Test::HasAny(SET_ID))]],
    },
    Check {
        // JUSTIFICATION: the same, relative to a folder
        calls: &[libc::SYS_openat],
        rules: &[&[(2, Test::HasAny(MAKES_A_FILE)), (3, Test::HasAny(SET_ID))]],
    },
    Check {
        // JUSTIFICATION: namespaces by clone; threads and processes stay possible
        calls: &[libc::SYS_clone],
        rules: &[&[(0, Test::HasAny(CLONE_NEW))]],
    },
    Check {
        // JUSTIFICATION: TIOCSTI and TIOCLINUX type into a terminal (CVE-2017-5226; the kernel
        // reads 32 bits, CVE-2019-10063), TIOCSETD changes its line discipline, TIOCCONS takes
        // the console's output. FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR change a file's project:
        // its owner may, and is then counted under another quota (ioctl_fsxattr in xfs(5))
        calls: &[libc::SYS_ioctl],
        rules: &[
            &[(1, Test::Is(0x5412))],
            &[(1, Test::Is(0x541c))],
            &[(1, Test::Is(0x541d))],
            &[(1, Test::Is(0x5423))],
            &[(1, Test::Is(0x4008_6602))],
            &[(1, Test::Is(0x401c_5820))],
        ],
    },
    Check {
        // JUSTIFICATION: another command line and environment in /proc than the process has
        // (PR_SET_MM)
        calls: &[libc::SYS_prctl],
        rules: &[&[(0, Test::Is(35))]],
    },
    Check {
        // JUSTIFICATION: a limit of 0 would let a piped core_pattern run again (core(5))
        calls: &[libc::SYS_setrlimit],
        rules: &[&[(0, Test::Is(RLIMIT_CORE))]],
    },
    Check {
        // JUSTIFICATION: the same; reading it stays possible
        calls: &[libc::SYS_prlimit64],
        rules: &[&[(1, Test::Is(RLIMIT_CORE)), (2, Test::IsGiven)]],
    },
    Check {
        // JUSTIFICATION: a listener of one's own could answer for the filters below it
        calls: &[libc::SYS_seccomp],
        rules: &[&[(1, Test::Has(SECCOMP_FILTER_FLAG_NEW_LISTENER))]],
    },
];

/// fchmodat2 (Linux 6.6), not yet in every libc crate.
const SYS_FCHMODAT2: i64 = 452;
