//! The instance's word for the keys that sign the two chains.
//!
//! Gate and vault make these keys themselves. Who reads the ledger elsewhere trusts one key only, the
//! instance's, which the operator keeps, sealed by systemd-creds(1) for example. At each start of one
//! of the two custodyd certifies the key that it published, and it keeps the certificate in its chain.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use custody_ledger::key::{self, KeyError};
use custody_service::clock::{BootClock, Clock as _};
use custody_wire::supervise::{GateNotice, VaultNotice};
use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::chain::{
    key_id,
    keys::{Certificate, Certified, PublicKey, Role},
};

use super::{Custodyd, say::chain, services::Service};

/// Why a key is not certified.
#[derive(Debug, thiserror::Error)]
enum NotCertified {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the time is beyond what JSON can say")]
    Time,
}

impl Custodyd {
    /// With its first message, has a service keep the instance's word for its key.
    pub(super) fn certify(&mut self, service: Service) {
        let (role, name) = match service {
            Service::Gate => (Role::Decisions, "decisions"),
            Service::Vault => (Role::Receipts, "receipts"),
            Service::Control | Service::Page | Service::Resolver => return,
        };
        let Some(key) = &self.checked.instance else {
            return;
        };
        if self.slots.has_spoken(service) {
            return;
        }
        let state = &self.checked.config.paths.state;
        let published = state.join(format!("public/{name}/{name}.pub"));
        match certificate(key, role, &published) {
            Ok(certificate) if service == Service::Gate => {
                self.tell(service, &GateNotice::Certified(Box::new(certificate)), &[]);
            }
            Ok(certificate) => {
                self.tell(service, &VaultNotice::Certified(Box::new(certificate)), &[]);
            }
            Err(error) => {
                tracing::error!(
                    error = chain(&error),
                    chain = name,
                    "the key is not certified"
                );
            }
        }
    }
}

fn certificate(
    instance: &SigningKey,
    role: Role,
    published: &Path,
) -> Result<Certificate, NotCertified> {
    let says = Certified {
        at: BootClock.unix_ms(),
        instance: key_id(&instance.verifying_key()),
        key: PublicKey::from(key::read_public(published)?),
        role,
    };
    says.sign(instance).map_err(|_number| NotCertified::Time)
}

/// Publishes the instance's key beside those of the chains. One that was there before is kept under a
/// number: what it certified stays certified until the operator revokes it.
pub(super) fn publish(folder: &Path, key: &VerifyingKey) -> io::Result<()> {
    let line = format!("{}\n", hex::encode(key.as_bytes()));
    let at = folder.join("instance.pub");
    match fs::read_to_string(&at) {
        Ok(earlier) if earlier == line => return Ok(()),
        Ok(_earlier) => {
            let free = (1_u32..)
                .map(|number| folder.join(format!("instance.{number}.pub")))
                .find(|path| path.symlink_metadata().is_err());
            if let Some(free) = free {
                fs::rename(&at, free)?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let made = folder.join("instance.pub.new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(&made)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    fs::rename(&made, &at)
}
