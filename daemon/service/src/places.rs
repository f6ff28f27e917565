//! So many at once: calls, streams, whatever is counted while it lasts.

use std::{cell::Cell, rc::Rc};

/// Places, of which each is given back when it is dropped.
#[derive(Debug)]
pub struct Places {
    taken: Rc<Cell<usize>>,
    most: usize,
}

/// One of them.
#[derive(Debug)]
pub struct Place(Rc<Cell<usize>>);

impl Places {
    /// So many.
    pub fn new(most: usize) -> Self {
        Self {
            taken: Rc::default(),
            most,
        }
    }

    /// One more, if there is one.
    pub fn enter(&self) -> Option<Place> {
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
