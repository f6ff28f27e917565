//! The programs at a cgroup: where each is attached, and the function that does it.

use agent_ebpf::Hook;
use aya::{
    Ebpf,
    programs::{
        CgroupDevice, CgroupSock, CgroupSockAddr, CgroupSockopt, CgroupSysctl, ProgramError,
    },
};
use custody_sys::bpf::Attach;
use custody_wire::layer::Layer;

use super::{Group, HookError};

/// A program that aya loads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) hook: Hook,
    pub(super) at: Attach,
    pub(super) function: &'static str,
    kind: Kind,
}

/// What the kernel calls the type of a program (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug)]
enum Kind {
    Device,
    Sock,
    SockAddr,
    SockOpt,
    Sysctl,
}

const fn program(hook: Hook, at: Attach, function: &'static str, kind: Kind) -> Program {
    Program {
        hook,
        at,
        function,
        kind,
    }
}

const fn address(hook: Hook, at: Attach, function: &'static str) -> Program {
    program(hook, at, function, Kind::SockAddr)
}

/// The IP hooks, the same at every group.
const INET: [Program; 7] = [
    program(
        Hook::SockCreate,
        Attach::SockCreate,
        "custody_sock_create",
        Kind::Sock,
    ),
    address(Hook::Bind4, Attach::Bind4, "custody_bind4"),
    address(Hook::Bind6, Attach::Bind6, "custody_bind6"),
    address(Hook::Connect4, Attach::Connect4, "custody_connect4"),
    address(Hook::Connect6, Attach::Connect6, "custody_connect6"),
    address(Hook::SendMsg4, Attach::SendMsg4, "custody_sendmsg4"),
    address(Hook::SendMsg6, Attach::SendMsg6, "custody_sendmsg6"),
];

/// The AF_UNIX hooks, which are assembled.
pub(super) const UNIX: [(Hook, Attach); 2] = [
    (Hook::ConnectUnix, Attach::ConnectUnix),
    (Hook::SendMsgUnix, Attach::SendMsgUnix),
];

const SETSOCKOPT: Program = program(
    Hook::SetSockOpt,
    Attach::SetSockOpt,
    "custody_setsockopt",
    Kind::SockOpt,
);

const SYSCTL: Program = program(Hook::Sysctl, Attach::Sysctl, "custody_sysctl", Kind::Sysctl);

const DEVICE_AGENT: Program = program(
    Hook::Device,
    Attach::Device,
    "custody_device_agent",
    Kind::Device,
);

const DEVICE_SERVICE: Program = program(
    Hook::Device,
    Attach::Device,
    "custody_device_service",
    Kind::Device,
);

/// What aya loads for `group`.
pub(super) fn programs(group: Group) -> impl Iterator<Item = Program> {
    let device = match group {
        Group::Agents => DEVICE_AGENT,
        Group::Services | Group::Workers => DEVICE_SERVICE,
    };
    INET.into_iter().chain([SETSOCKOPT, SYSCTL, device])
}

/// The layers that the hooks of a cgroup make up, each with its hooks.
pub fn layers() -> [(Layer, Vec<Hook>); 5] {
    [
        (Layer::CgroupDevice, vec![Hook::Device]),
        (
            Layer::CgroupInet,
            INET.iter().map(|program| program.hook).collect(),
        ),
        (Layer::CgroupSockopt, vec![Hook::SetSockOpt]),
        (Layer::CgroupSysctl, vec![Hook::Sysctl]),
        (
            Layer::CgroupUnix,
            UNIX.iter().map(|(hook, _)| *hook).collect(),
        ),
    ]
}

/// Loads them all.
///
/// # Errors
/// The first that does not load.
pub(super) fn load(ebpf: &mut Ebpf) -> Result<(), HookError> {
    let all = INET
        .into_iter()
        .chain([SETSOCKOPT, SYSCTL, DEVICE_AGENT, DEVICE_SERVICE]);
    for Program {
        hook,
        function,
        kind,
        ..
    } in all
    {
        let program = ebpf
            .program_mut(function)
            .ok_or(HookError::Incomplete { name: function })?;
        load_one(kind, program).map_err(|source| HookError::Program { hook, source })?;
    }
    Ok(())
}

fn load_one(kind: Kind, program: &mut aya::programs::Program) -> Result<(), ProgramError> {
    match kind {
        Kind::Device => {
            let program: &mut CgroupDevice = program.try_into()?;
            program.load()
        }
        Kind::Sock => {
            let program: &mut CgroupSock = program.try_into()?;
            program.load()
        }
        Kind::SockAddr => {
            let program: &mut CgroupSockAddr = program.try_into()?;
            program.load()
        }
        Kind::SockOpt => {
            let program: &mut CgroupSockopt = program.try_into()?;
            program.load()
        }
        Kind::Sysctl => {
            let program: &mut CgroupSysctl = program.try_into()?;
            program.load()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_of_a_cgroup_is_at_every_group_and_in_one_layer() {
        let mut hooks: Vec<Hook> = layers().into_iter().flat_map(|(_, hooks)| hooks).collect();
        hooks.sort();
        let of_hooks: Vec<Hook> = Hook::ALL
            .iter()
            .copied()
            .filter(|hook| !hook.is_lsm())
            .collect();
        assert_eq!(hooks, of_hooks);
        for group in Group::ALL {
            let mut there: Vec<Hook> = programs(group).map(|program| program.hook).collect();
            there.extend(UNIX.iter().map(|(hook, _)| *hook));
            there.sort();
            assert_eq!(there, of_hooks, "{group:?}");
        }
        assert!(layers().iter().all(|(layer, _)| layer.is_on_cgroup()));
    }
}
