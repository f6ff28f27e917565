//! How many connections each user may have, so that none takes the places of others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::caller::Standing;

/// The most connections of operators at once; a session holds one. Root comes on top: somebody must
/// be able to stop sessions.
pub const CONNECTIONS_MAX: usize = 1024;

/// The most connections of one uid, root excepted.
pub const CONNECTIONS_PER_UID: usize = 64;

/// The most connections of those whom no rule admits to anything, together: whoever has a range of
/// subordinate uids (subuid(5)) connects as any of them.
pub const STRANGERS_MAX: usize = 256;

/// Who has how many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<(Standing, u32), usize>>>);

impl Places {
    /// A place for `uid`, if there is one.
    pub(crate) fn take(&self, standing: Standing, uid: u32) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = match standing {
            Standing::Operator => CONNECTIONS_MAX,
            Standing::Root => usize::MAX,
            Standing::Stranger => STRANGERS_MAX,
        };
        let alike: usize = taken
            .iter()
            .filter(|((of, _), _)| *of == standing)
            .map(|(_, count)| *count)
            .sum();
        let his = taken.get(&(standing, uid)).copied().unwrap_or(0);
        if alike >= most || (standing != Standing::Root && his >= CONNECTIONS_PER_UID) {
            return None;
        }
        taken.insert((standing, uid), his.saturating_add(1));
        Some(Place {
            places: self.clone(),
            of: (standing, uid),
        })
    }
}

/// A connection's place. It is taken until the connection, and everything that the client gave, is
/// closed.
#[derive(Debug)]
pub struct Place {
    places: Places,
    of: (Standing, u32),
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(his) = taken.get_mut(&self.of) {
            *his = his.saturating_sub(1);
            if *his == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_for_the_others() {
        let places = Places::default();
        let his: Vec<_> = (0..CONNECTIONS_PER_UID)
            .map(|_| places.take(Standing::Operator, 1000).unwrap())
            .collect();
        assert!(places.take(Standing::Operator, 1000).is_none());
        assert!(places.take(Standing::Operator, 1001).is_some());
        drop(his);
        assert!(places.take(Standing::Operator, 1000).is_some());
        assert_eq!(places.0.lock().unwrap().len(), 0, "places are given back");
    }

    #[test]
    fn strangers_of_many_uids_leave_places_for_operators_and_operators_for_root() {
        let places = Places::default();
        let many = |standing| (0_u32..2_000).filter_map(move |uid| places.take(standing, uid));
        let strangers: Vec<_> = many.clone()(Standing::Stranger).collect();
        assert_eq!(strangers.len(), STRANGERS_MAX);
        let operators: Vec<_> = many.clone()(Standing::Operator).collect();
        assert_eq!(operators.len(), CONNECTIONS_MAX);
        assert_eq!(many(Standing::Root).count(), 2_000);
    }
}
