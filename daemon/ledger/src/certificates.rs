//! Keys that a reader knows by an instance's certificates alone: looked for before the chain is read.
//!
//! The first lines of a chain stand before the certificate of the key that signs them, and an instance
//! that was replaced is followed by another one in the middle.

use std::{io::BufReader, path::Path};

use gate::chain::{ChainName, keys::Keyring};

use crate::{lines, segment};

/// What no other line needs to be parsed for: the name of the field.
const NAME: &[u8] = b"\"certified\"";

/// `ring` with every key that one of its instances certifies in the chain in `folder`. Where that cannot
/// be read, the reading of the chain itself says so.
pub(crate) fn learn(folder: &Path, chain: ChainName, mut ring: Keyring) -> Keyring {
    let files = match segment::list(folder) {
        Ok((files, _wrong)) if ring.has_instances() => files,
        Ok(_) | Err(_) => 0,
    };
    for number in 1..=files {
        let Ok(file) = segment::read(folder, number) else {
            return ring;
        };
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        while let Ok(lines::Read::Whole) = lines::next(&mut file, &mut line) {
            if line.windows(NAME.len()).any(|part| part == NAME) {
                ring.learn_from(chain, &line);
            }
        }
    }
    ring
}
