//! Where in the text a fingerprint is: a hash table that grows one bucket at a time.
//!
//! Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980): no
//! moment at which everything is moved, so that recording stays even. Each bucket is sorted, so
//! that nearly nothing is reserved for later: 8 bytes an entry and a sixteenth more.

use alloc::vec::Vec;

/// How many bits of an entry say where: a text has at most 2^24 bytes.
const PLACE_BITS: u32 = 24;
const PLACE: u64 = (1 << PLACE_BITS) - 1;

/// How many entries a bucket has on average before another bucket is made: three quarters of a
/// page of 1 KiB are searched in seven steps and moved in about the time of one cache miss.
const FULL: usize = 96;

/// Fingerprints and their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Each sorted. Entry: 40 bits of fingerprint, 24 bits of place.
    buckets: Vec<Vec<u64>>,
    /// Buckets 0 to 2^level − 1 are there, and those that are split already.
    level: u32,
    /// The next bucket to split.
    split: u64,
    entries: usize,
    reserved: usize,
}

impl Table {
    /// Notes that `hash` is at `place`, unless `most` are noted already. Says whether there was
    /// room. Places must not decrease from one call to the next.
    pub(super) fn push(&mut self, hash: u64, place: u32, most: usize) -> bool {
        if self.buckets.is_empty() {
            self.buckets.push(Vec::new());
        }
        let index = self.bucket(hash);
        let Some(bucket) = self.buckets.get_mut(index) else {
            return false;
        };
        let (low, first) = find(bucket, hash);
        let held = held(bucket, low, first).take(most).count();
        if held >= most {
            return false;
        }
        let before = bucket.capacity();
        if before == bucket.len() {
            bucket.reserve_exact((before >> 3).max(4));
            self.reserved = self.reserved.saturating_add(bucket.capacity() - before);
        }
        bucket.insert(first.saturating_add(held), low | u64::from(place));
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.buckets.len().saturating_mul(FULL) {
            self.grow();
        }
        true
    }

    /// The places of `hash`, in rising order.
    pub(super) fn places(&self, hash: u64) -> impl Iterator<Item = u32> {
        let bucket = self
            .buckets
            .get(self.bucket(hash))
            .map_or(&[][..], Vec::as_slice);
        let (low, first) = find(bucket, hash);
        held(bucket, low, first)
    }

    /// Reads an entry near where `hash` is, and gives it: who asks for many of them before he pushes them
    /// has the processor fetch many at once.
    pub(super) fn touch(&self, hash: u64) -> u64 {
        let bucket = self.buckets.get(self.bucket(hash));
        let entry = bucket.and_then(|bucket| bucket.get(near(bucket, hash)));
        entry.copied().unwrap_or(0)
    }

    /// How many bytes of memory it takes.
    pub(super) const fn bytes(&self) -> usize {
        let entries = self.reserved.saturating_mul(size_of::<u64>());
        let buckets = self.buckets.capacity();
        entries.saturating_add(buckets.saturating_mul(size_of::<Vec<u64>>()))
    }

    /// Litwin's address: by `level` bits, and by one more where the bucket is split already.
    const fn bucket(&self, hash: u64) -> usize {
        let bits = hash >> PLACE_BITS;
        let low = bits & !(u64::MAX << self.level);
        if low < self.split {
            index(bits & !(u64::MAX << (self.level + 1)))
        } else {
            index(low)
        }
    }

    fn grow(&mut self) {
        let from = index(self.split);
        let Some(bucket) = self.buckets.get_mut(from) else {
            return;
        };
        let bit = 1 << (PLACE_BITS + self.level);
        let stays = bucket.iter().filter(|entry| **entry & bit == 0).count();
        let goes = bucket.len() - stays;
        let room = |entries: usize| Vec::with_capacity(entries.saturating_add(entries >> 3));
        let (mut low, mut high) = (room(stays), room(goes));
        for entry in bucket.drain(..) {
            if entry & bit == 0 {
                low.push(entry);
            } else {
                high.push(entry);
            }
        }
        self.reserved = self
            .reserved
            .saturating_sub(bucket.capacity())
            .saturating_add(low.capacity())
            .saturating_add(high.capacity());
        *bucket = low;
        self.buckets.push(high);
        self.split += 1;
        if self.split >> self.level == 1 {
            self.split = 0;
            self.level += 1;
        }
    }
}

/// About where `hash` is. Fingerprints are even, so that the place is near where it should be by its
/// share of all fingerprints.
const fn near(bucket: &[u64], hash: u64) -> usize {
    index((hash >> 32).saturating_mul(bucket.len() as u64) >> 32)
}

/// The entry that `hash` has without a place, and where the first one of its list is.
fn find(bucket: &[u64], hash: u64) -> (u64, usize) {
    let low = hash & !PLACE;
    let mut first = near(bucket, hash);
    while bucket.get(first).is_some_and(|entry| *entry < low) {
        first = first.saturating_add(1);
    }
    while let Some(before) = first.checked_sub(1)
        && bucket.get(before).is_some_and(|entry| *entry >= low)
    {
        first = before;
    }
    (low, first)
}

fn held(bucket: &[u64], low: u64, first: usize) -> impl Iterator<Item = u32> {
    bucket
        .get(first..)
        .unwrap_or_default()
        .iter()
        .take_while(move |entry| **entry & !PLACE == low)
        .map(|entry| u32::try_from(entry & PLACE).unwrap_or(0))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a bucket's number is below 2^40, and there are never more than fit into memory"
)]
const fn index(number: u64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// A map of lists is the table's meaning, however it grows.
        #[test]
        fn a_table_holds_the_first_places_of_each_fingerprint(
            hashes in proptest::collection::vec((any::<u64>(), 0_u64..40), 0..2_000)
        ) {
            let mut table = Table::default();
            let mut model: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for (place, (wide, narrow)) in hashes.iter().enumerate() {
                // Half of them meet often.
                let hash = if wide % 2 == 0 { *wide } else { narrow << 30 };
                let place = u32::try_from(place).unwrap();
                let list = model.entry(hash & !PLACE).or_default();
                prop_assert_eq!(table.push(hash, place, 8), list.len() < 8);
                if list.len() < 8 {
                    list.push(place);
                }
            }
            for (hash, list) in &model {
                prop_assert_eq!(&table.places(*hash).collect::<Vec<_>>(), list);
            }
            let reserved: usize = table.buckets.iter().map(Vec::capacity).sum();
            prop_assert_eq!(table.reserved, reserved);
        }
    }

    #[test]
    fn a_full_table_reserves_hardly_more_than_its_entries() {
        let mut table = Table::default();
        for place in 0..200_000_u32 {
            let hash = u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert!(table.push(hash, place, 8));
        }
        assert!(table.bytes() < 200_000 * 10, "{}", table.bytes());
    }
}
