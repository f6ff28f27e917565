//! Refused configurations: none starts under a profile that refuses it, and each is still reached where
//! it is permitted.

use anyhow::Context as _;
use custody_tests::{attempts::refused_configurations, ground, refused::provoked};
use custody_wire::refused::Refused;

macro_rules! refused {
    ($($name:ident $which:ident),* $(,)?) => {
        $(
            #[test]
            #[serial_test::file_serial(custody)]
            fn $name() -> anyhow::Result<()> {
                if ground::can_run() {
                    is_refused_and_reached(Refused::$which)?;
                }
                Ok(())
            }
        )*

        #[test]
        fn every_refused_configuration_has_a_test_here() {
            let here = [$((stringify!($name), Refused::$which)),*];
            assert_eq!(here.len(), Refused::ALL.len());
            for which in Refused::ALL {
                assert!(here.contains(&(which.id(), which)), "{}", which.id());
            }
        }
    };
}

fn is_refused_and_reached(which: Refused) -> anyhow::Result<()> {
    provoked::not_started(which)?;
    let attempt = refused_configurations::of(which).context("it has no attempt")?;
    (attempt.reach)().context(attempt.id)?;
    Ok(())
}

refused! {
    agent_uid_reserved AgentUidReserved,
    agent_uid_root AgentUidRoot,
    agent_uid_shared AgentUidShared,
    capability_left CapabilityLeft,
    cgroup2_missing Cgroup2Missing,
    container_socket ContainerSocket,
    core_dump_allowed CoreDumpAllowed,
    credential_readable CredentialReadable,
    credential_shown CredentialShown,
    custodyd_traced CustodydTraced,
    dbus_socket DbusSocket,
    display_socket DisplaySocket,
    environment_credential EnvironmentCredential,
    extra_descriptor ExtraDescriptor,
    host_network HostNetwork,
    io_uring_allowed IoUringAllowed,
    key_agent_socket KeyAgentSocket,
    landlock_missing LandlockMissing,
    new_privileges NewPrivileges,
    old_kernel OldKernel,
    piped_core_pattern PipedCorePattern,
    seccomp_missing SeccompMissing,
    setuid_honoured SetuidHonoured,
    shared_namespace SharedNamespace,
    socket_stdio SocketStdio,
    systemd_socket SystemdSocket,
    terminal_socket TerminalSocket,
    vault_dumpable VaultDumpable,
    vault_traced VaultTraced,
    workspace_credential WorkspaceCredential,
    workspace_fifo WorkspaceFifo,
    workspace_holds_state WorkspaceHoldsState,
    workspace_socket WorkspaceSocket,
    writable_bpffs WritableBpffs,
    writable_cgroupfs WritableCgroupfs,
}
