//! Numbers that may come once each, and nearly in order.

/// How far back a number may be. A front has fewer calls than this on their way.
const WIDTH: u64 = 128;

/// Remembers which of the last 128 numbers came (the sliding window of RFC 4303, 3.4.3): flat
/// memory, and no number is ever taken twice.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The number behind the highest that came.
    next: u64,
    /// Bit n: whether `next - 1 - n` came.
    came: u128,
}

impl Window {
    /// Whether `number` is new. Then it no longer is.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        if number == u64::MAX {
            return false;
        }
        if let Some(ahead) = number.checked_sub(self.next) {
            let shift = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
            self.came = self.came.checked_shl(shift).unwrap_or(0) | 1;
            self.next = number.saturating_add(1);
            return true;
        }
        let back = self.next.saturating_sub(1).saturating_sub(number);
        if back >= WIDTH {
            return false;
        }
        let bit = 1_u128
            .checked_shl(u32::try_from(back).unwrap_or(u32::MAX))
            .unwrap_or(0);
        let new = self.came & bit == 0;
        self.came |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_once_in_whatever_order() {
        let mut window = Window::default();
        for number in [0, 3, 1, 2, 130, 100, 7] {
            assert!(window.take(number), "{number}");
        }
        for number in [0, 3, 1, 2, 130, 100, 7] {
            assert!(!window.take(number), "{number}");
        }
    }

    #[test]
    fn a_number_too_far_back_is_not_taken_for_new() {
        let mut window = Window::default();
        assert!(window.take(1_000));
        assert!(window.take(1_000 - WIDTH + 1));
        assert!(!window.take(1_000 - WIDTH));
        assert!(!window.take(0));
    }

    #[test]
    fn the_end_of_the_numbers_is_refused_and_jumps_lose_nothing() {
        let mut window = Window::default();
        assert!(!window.take(u64::MAX));
        assert!(window.take(5));
        assert!(window.take(u64::MAX - 1));
        assert!(!window.take(u64::MAX - 1));
        assert!(!window.take(5));
    }
}
