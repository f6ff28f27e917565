//! A file, line by line, in flat memory.

use std::io::{self, BufRead, Read as _};

use gate::chain::LINE_MAX;

/// The most bytes of a line, its line feed included.
const LINE_BYTES: usize = LINE_MAX + 1;

/// What was read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Read {
    /// The file ends here.
    End,
    /// A line with its line feed, which is taken off.
    Whole,
    /// Bytes behind the last line feed.
    Torn,
    /// More than [`LINE_MAX`] bytes without a line feed.
    TooLong,
}

/// Reads the next line into `line`, which is emptied first.
pub(crate) fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Read> {
    line.clear();
    let most = u64::try_from(LINE_BYTES).unwrap_or(u64::MAX);
    let read = from.take(most).read_until(b'\n', line)?;
    Ok(if read == 0 {
        Read::End
    } else if line.last() == Some(&b'\n') {
        line.truncate(read.saturating_sub(1));
        Read::Whole
    } else if read == LINE_BYTES {
        Read::TooLong
    } else {
        Read::Torn
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<(Read, Vec<u8>)> {
        let mut found = Vec::new();
        let mut line = Vec::new();
        loop {
            match next(&mut bytes, &mut line).unwrap() {
                Read::End => return found,
                Read::TooLong => {
                    found.push((Read::TooLong, line.clone()));
                    return found;
                }
                read @ (Read::Whole | Read::Torn) => found.push((read, line.clone())),
            }
        }
    }

    #[test]
    fn a_line_ends_at_its_line_feed_and_what_follows_the_last_one_is_torn() {
        assert_eq!(all(b""), []);
        assert_eq!(
            all(b"a\n\nb"),
            [
                (Read::Whole, b"a".to_vec()),
                (Read::Whole, b"".to_vec()),
                (Read::Torn, b"b".to_vec()),
            ]
        );
    }

    #[test]
    fn a_line_without_an_end_is_not_read_into_memory() {
        let endless = vec![b'x'; LINE_BYTES * 3];
        let found = all(&endless);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Read::TooLong);
        assert_eq!(found[0].1.len(), LINE_BYTES);
    }
}
