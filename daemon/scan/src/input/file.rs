//! The bytes of a file, and never more of them than the limit.

use std::{fs::File, io::Read as _, path::Path};

use super::{Fault, InputError, limits};

/// The bytes of `path`. One that is larger than the limit is refused before it is read, and where its size is not
/// known beforehand (a pipe), one byte past the limit is the last.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    let failed = |error| InputError::read(path, error);
    let large = || InputError::new(&path.to_string_lossy(), "", Fault::Large);
    let file = File::open(path).map_err(failed)?;
    let said = file.metadata().map_err(failed)?.len();
    let most = u64::try_from(limits::FILE_BYTES).unwrap_or(u64::MAX);
    if said > most {
        return Err(large());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > limits::FILE_BYTES {
        return Err(large());
    }
    Ok(bytes)
}
