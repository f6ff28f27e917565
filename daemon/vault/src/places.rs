//! So many at once.

use std::{cell::Cell, rc::Rc};

/// Places, of which each is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Rc<Cell<u32>>,
    most: u32,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Place(Rc<Cell<u32>>);

impl Places {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            taken: Rc::default(),
            most,
        }
    }

    /// One more, if there is one.
    pub(crate) fn enter(&self) -> Option<Place> {
        let taken = self.taken.get();
        (taken < self.most).then(|| {
            self.taken.set(taken.saturating_add(1));
            Place(Rc::clone(&self.taken))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
