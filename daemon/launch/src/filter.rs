//! The system call filters, compiled from the [table] and installed last (seccomp(2)).
//!
//! Two filters: one answers ENOSYS for what does not exist here, one EPERM for what is refused;
//! of two answers the kernel takes the stricter, and both kill another architecture (int 0x80).

mod table;

use std::collections::BTreeMap;

use custody_wire::{launch::Network, layer::Layer};
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::failure::Failure;
use table::{Check, Group, Subject, Test};

/// Compiled filters that bind nobody yet.
#[derive(Debug)]
pub(crate) struct Filters(Vec<BpfProgram>);

/// Proof that they are installed, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed(pub(crate) usize);

impl Filters {
    pub(crate) fn session() -> Result<Self, Failure> {
        Self::compile(Subject::Session)
    }

    pub(crate) fn service(network: Network) -> Result<Self, Failure> {
        Self::compile(match network {
            Network::Host => Subject::NetworkService,
            Network::None => Subject::Service,
        })
    }

    fn compile(subject: Subject) -> Result<Self, Failure> {
        let mut unknown: Vec<&Group> = table::UNKNOWN.iter().collect();
        let mut refused: Vec<&Group> = table::REFUSED.iter().collect();
        let mut checked: Vec<&Check> = table::CHECKED.iter().collect();
        match subject {
            Subject::Session => {
                unknown.extend(table::UNKNOWN_TO_SESSIONS);
                refused.extend(table::REFUSED_TO_SESSIONS);
                checked.extend(table::UNIX_SOCKETS);
            }
            Subject::Service => checked.extend(table::UNIX_SOCKETS),
            Subject::NetworkService => checked.extend(table::IP_SOCKETS),
        }
        Ok(Self(vec![
            unknown_calls(&unknown)?,
            refused_calls(&refused, &checked)?,
        ]))
    }

    /// Binds this process and all that it starts, for good.
    pub(crate) fn install(self) -> Result<Installed, Failure> {
        for filter in &self.0 {
            seccompiler::apply_filter(filter).map_err(|error| failure(&error))?;
        }
        Ok(Installed(self.0.len()))
    }
}

/// EPERM for whole calls and for arguments.
fn refused_calls(groups: &[&Group], checks: &[&Check]) -> Result<BpfProgram, Failure> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for check in checks {
        for call in check.calls {
            for rule in check.rules {
                let conditions = rule
                    .iter()
                    .map(|(argument, test)| condition(*argument, *test))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| failure(&error.into()))?;
                let rule = SeccompRule::new(conditions).map_err(|error| failure(&error.into()))?;
                rules.entry(*call).or_default().push(rule);
            }
        }
    }
    for call in groups.iter().flat_map(|group| group.calls) {
        // No rule at all: whatever the arguments.
        rules.insert(*call, Vec::new());
    }
    let errno = u32::try_from(libc::EPERM).unwrap_or(1);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        architecture()?,
    )
    .map_err(|error| failure(&error.into()))?;
    BpfProgram::try_from(filter).map_err(|error| failure(&error.into()))
}

fn condition(argument: u8, test: Test) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (width, operator, value) = match test {
        Test::Is(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value),
        Test::IsNot(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value),
        Test::Has(bits) => masked(bits, bits),
        Test::Lacks(bits) => masked(bits, 0),
        Test::Masked(mask, value) => masked(mask, value),
        Test::IsGiven => (SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0),
    };
    SeccompCondition::new(argument, width, operator, value.into())
}

fn masked(mask: u32, value: u32) -> (SeccompCmpArgLen, SeccompCmpOp, u32) {
    (
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(mask.into()),
        value,
    )
}

/// ENOSYS for listed calls and for every number above [`table::NEWEST`], which seccompiler cannot
/// say: it compares numbers for equality only.
fn unknown_calls(groups: &[&Group]) -> Result<BpfProgram, Failure> {
    let absent = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS).unwrap_or(38);
    let mut program = vec![
        load(SECCOMP_DATA_ARCH),
        jump(JUMP_IF_EQUAL, audit_architecture(architecture()?), 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(SECCOMP_DATA_NR),
        jump(JUMP_IF_ABOVE, table::NEWEST, 0, 1),
        answer(absent),
    ];
    for call in groups.iter().flat_map(|group| group.calls) {
        let call = u32::try_from(*call).map_err(|_negative| {
            Failure::refused(Some(Layer::Seccomp), "a call's number".into())
        })?;
        program.push(jump(JUMP_IF_EQUAL, call, 0, 1));
        program.push(answer(absent));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    Ok(program)
}

fn architecture() -> Result<TargetArch, Failure> {
    TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failure(&error.into()))
}

/// AUDIT_ARCH_* (linux/audit.h).
const fn audit_architecture(architecture: TargetArch) -> u32 {
    match architecture {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    }
}

// Classic BPF (linux/bpf_common.h, linux/seccomp.h).
const SECCOMP_DATA_NR: u32 = 0;
const SECCOMP_DATA_ARCH: u32 = 4;
/// BPF_JMP | BPF_JGT | BPF_K.
const JUMP_IF_ABOVE: u16 = 0x25;
/// BPF_JMP | BPF_JEQ | BPF_K.
const JUMP_IF_EQUAL: u16 = 0x15;

const fn load(offset: u32) -> sock_filter {
    // BPF_LD | BPF_W | BPF_ABS.
    sock_filter {
        code: 0x20,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn answer(action: u32) -> sock_filter {
    // BPF_RET | BPF_K.
    sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: action,
    }
}

fn failure(error: &seccompiler::Error) -> Failure {
    let errno = match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            error.raw_os_error().unwrap_or(0)
        }
        seccompiler::Error::Backend(_)
        | seccompiler::Error::EmptyFilter
        | seccompiler::Error::ThreadSync(_) => 0,
    };
    Failure {
        layer: Some(Layer::Seccomp),
        step: format!("seccomp(2): {error}"),
        errno,
    }
}
