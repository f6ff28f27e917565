//! Which program is killed at which of its stops.

use std::{sync::Mutex, time::Instant};

/// The programs on a call's way. The resolver is on none whose host is an address.
const PROGRAMS: [&str; 4] = [
    "custody-effect",
    "custody-front",
    "custody-gate",
    "custody-vault",
];

/// A way that a call takes: the program that is killed on it, and what is called.
pub(crate) type Way = (&'static str, Called);

/// What is called.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Called {
    /// A message, which is not idempotent: its intent is on disk first.
    Message,
    /// A note over a lease, which is on disk before it is opened. Nobody reads it.
    Stream,
}

/// Each program, on each way.
pub(crate) const WAYS: [Way; 2 * PROGRAMS.len()] = {
    let [a, b, c, d] = PROGRAMS;
    let (message, stream) = (Called::Message, Called::Stream);
    [
        (a, message),
        (b, stream),
        (c, message),
        (d, stream),
        (a, stream),
        (b, message),
        (c, stream),
        (d, message),
    ]
};

/// How far it is is said once for so many points.
const SAID_EACH: usize = 250;

/// Which step is next, for whoever is free.
pub(crate) struct Plan {
    /// The points that are left, and the next stop of each program.
    next: Mutex<(usize, [usize; WAYS.len()])>,
    pub(crate) points: usize,
    step: usize,
    pub(crate) begun: Instant,
}

/// A program is to be killed at its stop.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) number: usize,
    pub(crate) which: usize,
    pub(crate) at: usize,
}

impl Plan {
    pub(crate) fn new(points: usize) -> Self {
        Self {
            next: Mutex::new((0, [1; WAYS.len()])),
            points,
            // With few points: some at the beginning, and then further and further apart.
            step: if points < 1_000 { 7 } else { 1 },
            begun: Instant::now(),
        }
    }

    /// The next point of this program, if one is left.
    pub(crate) fn take(&self, which: usize) -> Option<Point> {
        let mut next = self.next.lock().unwrap();
        let (number, at) = &mut *next;
        if *number >= self.points {
            return None;
        }
        let point = Point {
            number: *number,
            which,
            at: at[which],
        };
        if *number > 0 && number.is_multiple_of(SAID_EACH) {
            println!(
                "{number} of {} points in {} s",
                self.points,
                self.begun.elapsed().as_secs()
            );
        }
        *number += 1;
        at[which] += self.step;
        Some(point)
    }

    pub(crate) fn is_left(&self) -> bool {
        self.next.lock().unwrap().0 < self.points
    }

    /// The call was over before this stop: the next ones begin anew.
    pub(crate) fn is_beyond(&self, point: Point) {
        let mut next = self.next.lock().unwrap();
        let at = &mut next.1[point.which];
        if *at > point.at {
            *at = 1;
        }
    }
}
