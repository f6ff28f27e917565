//! Whose socket a path is, by where such sockets are by convention.

use std::path::Path;

use custody_wire::refused::Refused;

/// Names of files that say whose socket it is.
const NAMES: [(&str, Refused); 14] = [
    ("S.gpg-agent", Refused::KeyAgentSocket),
    ("S.gpg-agent.browser", Refused::KeyAgentSocket),
    ("S.gpg-agent.extra", Refused::KeyAgentSocket),
    ("S.gpg-agent.ssh", Refused::KeyAgentSocket),
    ("S.keyboxd", Refused::KeyAgentSocket),
    ("S.scdaemon", Refused::KeyAgentSocket),
    ("buildkitd.sock", Refused::ContainerSocket),
    ("containerd.sock", Refused::ContainerSocket),
    ("containerd.sock.ttrpc", Refused::ContainerSocket),
    ("crio.sock", Refused::ContainerSocket),
    ("docker.sock", Refused::ContainerSocket),
    ("podman.sock", Refused::ContainerSocket),
    ("system_bus_socket", Refused::DbusSocket),
    ("ssh-agent", Refused::KeyAgentSocket),
];

/// Parts of a path that say it.
const PARTS: [(&str, Refused); 13] = [
    (".X11-unix", Refused::DisplaySocket),
    ("containerd", Refused::ContainerSocket),
    ("dbus", Refused::DbusSocket),
    ("dbus-1", Refused::DbusSocket),
    ("docker", Refused::ContainerSocket),
    ("gnupg", Refused::KeyAgentSocket),
    ("keyring", Refused::KeyAgentSocket),
    ("podman", Refused::ContainerSocket),
    ("screen", Refused::TerminalSocket),
    ("screens", Refused::TerminalSocket),
    ("ssh-agent", Refused::KeyAgentSocket),
    ("systemd", Refused::SystemdSocket),
    ("tmux", Refused::TerminalSocket),
];

/// Beginnings of a part of a path that say it.
const PREFIXES: [(&str, Refused); 6] = [
    ("S-", Refused::TerminalSocket),
    ("dbus-", Refused::DbusSocket),
    ("keyring-", Refused::KeyAgentSocket),
    ("ssh-", Refused::KeyAgentSocket),
    ("tmux-", Refused::TerminalSocket),
    ("wayland-", Refused::DisplaySocket),
];

/// Whose socket lies at `path`. One of nobody in particular is `otherwise`.
pub fn whose(path: &Path, otherwise: Refused) -> Refused {
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| part.as_os_str().to_str())
        .collect();
    let name = parts.last().copied().unwrap_or_default();
    if let Some((_, whose)) = NAMES.iter().find(|(known, _)| name == *known) {
        return *whose;
    }
    // ssh(1): `$TMPDIR/ssh-XXXXXXXXXX/agent.PID`.
    if name.starts_with("agent.") {
        return Refused::KeyAgentSocket;
    }
    // The user's session bus (dbus-daemon(1)).
    if name == "bus" && path.starts_with("/run") {
        return Refused::DbusSocket;
    }
    // From the last part to the first: the nearest folder knows best.
    for part in parts.iter().rev() {
        if let Some((_, whose)) = PARTS.iter().find(|(known, _)| part == known) {
            return *whose;
        }
        if let Some((_, whose)) = PREFIXES.iter().find(|(known, _)| part.starts_with(known)) {
            return *whose;
        }
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_sockets_are_known_by_their_paths() {
        for (path, expected) in [
            ("/run/docker.sock", Refused::ContainerSocket),
            ("/run/containerd/containerd.sock", Refused::ContainerSocket),
            (
                "/run/user/1000/podman/podman.sock",
                Refused::ContainerSocket,
            ),
            ("/run/dbus/system_bus_socket", Refused::DbusSocket),
            ("/run/user/1000/bus", Refused::DbusSocket),
            ("/tmp/dbus-Ab12", Refused::DbusSocket),
            ("/run/systemd/private", Refused::SystemdSocket),
            ("/run/systemd/journal/stdout", Refused::SystemdSocket),
            ("/run/systemd/notify", Refused::SystemdSocket),
            ("/run/user/1000/systemd/private", Refused::SystemdSocket),
            ("/tmp/ssh-XXXX/agent.12", Refused::KeyAgentSocket),
            ("/run/user/1000/gnupg/S.gpg-agent", Refused::KeyAgentSocket),
            ("/run/user/1000/keyring/ssh", Refused::KeyAgentSocket),
            ("/tmp/.X11-unix/X0", Refused::DisplaySocket),
            ("/run/user/1000/wayland-0", Refused::DisplaySocket),
            ("/tmp/tmux-1000/default", Refused::TerminalSocket),
            ("/run/screen/S-alice/1.tty", Refused::TerminalSocket),
            ("/srv/app/app.sock", Refused::WorkspaceSocket),
        ] {
            assert_eq!(
                whose(Path::new(path), Refused::WorkspaceSocket),
                expected,
                "{path}"
            );
        }
    }
}
