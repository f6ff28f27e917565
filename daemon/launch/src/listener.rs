//! The session's listener.

use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixListener},
    },
    path::Path,
};

use custody_sys::channel::{self, Rights};

use crate::failure::{Failure, Step as _};

/// Bound and listening before anybody else is here. Whoever is in this
/// mount namespace may connect (0666): the listener is the identity.
///
/// Nobody takes descriptors there. Where the kernel can refuse them (6.16) none waits in the queue of a
/// session that ends, for custodyd's one thread to close.
pub(crate) fn listen(path: &Path) -> Result<OwnedFd, Failure> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !custody_sys::path::is_plain_absolute(path) || !folder.starts_with("/run") {
        return Err(Failure::refused(
            None,
            format!("the listener `{}` is not below `/run`", path.display()),
        ));
    }
    fs::create_dir_all(folder).step(|| format!("mkdir(2) of `{}`", folder.display()))?;
    let listener = UnixListener::bind(path).step(|| format!("bind(2) of `{}`", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
        .step(|| format!("chmod(2) of `{}`", path.display()))?;
    channel::set_rights(&listener, Rights::Refused)
        .step(|| format!("setsockopt(2) of `{}`", path.display()))?;
    Ok(listener.into())
}
