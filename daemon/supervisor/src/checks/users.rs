//! The users that our services run as, by name or by number.

use custody_config::{Page, Uids, Users as Names};
use nix::unistd::User;

/// A uid and a gid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ids {
    /// The uid.
    pub uid: u32,
    /// The gid.
    pub gid: u32,
}

impl Ids {
    /// The same number for both: of the reserved ranges.
    pub const fn same(uid: u32) -> Self {
        Self { uid, gid: uid }
    }
}

/// The users that services run as.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// custody-control.
    pub control: Ids,
    /// custody-gate.
    pub gate: Ids,
    /// The resolver role of custody-effect.
    pub resolver: Ids,
    /// custody-review, where there is a page.
    pub review: Option<Ids>,
    /// custody-vault.
    pub vault: Ids,
}

/// Why a user cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The user database cannot be read.
    #[error("cannot look up user `{name}`")]
    LookUp {
        /// Which.
        name: String,
        /// Why.
        source: nix::Error,
    },
    /// Two services under one user could read each other.
    #[error("`users.{key}` is `{name}`, which another service has; each needs a user of its own")]
    Shared {
        /// Which service.
        key: &'static str,
        /// The user.
        name: String,
    },
    /// No such user.
    #[error(
        "`users.{key}`: there is no user `{name}`; make it: \
         `useradd --system --no-create-home --shell /usr/sbin/nologin {name}`"
    )]
    Unknown {
        /// Which service.
        key: &'static str,
        /// The user.
        name: String,
    },
    /// A uid that is root's or an agent's.
    #[error(
        "`users.{key}` is `{name}` (uid {uid}); root and the reserved ranges are not for services"
    )]
    Unusable {
        /// Which service.
        key: &'static str,
        /// The user.
        name: String,
        /// Its uid.
        uid: u32,
    },
}

impl Users {
    /// Looks them up; the page's where there is a page.
    ///
    /// # Errors
    /// See [`UsersError`].
    pub fn find(names: &Names, reserved: &Uids, page: Option<Page>) -> Result<Self, UsersError> {
        let mut taken = Vec::new();
        let mut find = |key, name: &String| {
            let ids = look_up(key, name)?;
            let uid = ids.uid;
            let ours = [reserved.agents, reserved.fronts, reserved.workers];
            if uid == 0 || ids.gid == 0 || ours.iter().any(|range| range.contains(uid)) {
                return Err(UsersError::Unusable {
                    key,
                    name: name.clone(),
                    uid,
                });
            }
            if taken.contains(&uid) {
                return Err(UsersError::Shared {
                    key,
                    name: name.clone(),
                });
            }
            taken.push(uid);
            Ok(ids)
        };
        Ok(Self {
            control: find("control", &names.control)?,
            gate: find("gate", &names.gate)?,
            resolver: find("resolver", &names.resolver)?,
            review: page.map(|_| find("review", &names.review)).transpose()?,
            vault: find("vault", &names.vault)?,
        })
    }
}

fn look_up(key: &'static str, name: &str) -> Result<Ids, UsersError> {
    if let Ok(uid) = name.parse() {
        return Ok(Ids::same(uid));
    }
    let user = User::from_name(name).map_err(|source| UsersError::LookUp {
        name: name.into(),
        source,
    })?;
    user.map(|user| Ids {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
    })
    .ok_or_else(|| UsersError::Unknown {
        key,
        name: name.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(control: &str, gate: &str) -> Result<Users, UsersError> {
        let names = Names {
            control: control.into(),
            gate: gate.into(),
            resolver: "903".into(),
            review: "905".into(),
            vault: "904".into(),
        };
        Users::find(&names, &Uids::default(), None)
    }

    #[test]
    fn numbers_need_no_entry_and_each_service_has_its_own() {
        assert_eq!(found("901", "902").unwrap().gate, Ids::same(902));
        assert!(matches!(
            found("901", "901"),
            Err(UsersError::Shared { key: "gate", .. })
        ));
    }

    #[test]
    fn the_page_has_a_user_of_its_own_where_there_is_one() {
        let names = |review: &str| Names {
            control: "901".into(),
            gate: "902".into(),
            resolver: "903".into(),
            review: review.into(),
            vault: "904".into(),
        };
        let page = Page {
            listen: "127.0.0.1:7707".parse().unwrap(),
        };
        let find = |review, page| Users::find(&names(review), &Uids::default(), page);
        assert_eq!(
            find("905", Some(page)).unwrap().review,
            Some(Ids::same(905))
        );
        assert_eq!(find("no-such-user", None).unwrap().review, None);
        assert!(matches!(
            find("901", Some(page)),
            Err(UsersError::Shared { key: "review", .. })
        ));
    }

    #[test]
    fn root_and_reserved_uids_are_not_for_services() {
        for bad in ["0", "root", "1900000000", "1900200001"] {
            assert!(
                matches!(found(bad, "902"), Err(UsersError::Unusable { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_user_that_does_not_exist_comes_with_the_command_that_makes_it() {
        let error = found("custody-no-such-user", "902")
            .unwrap_err()
            .to_string();
        assert!(error.contains("useradd"), "{error}");
    }
}
