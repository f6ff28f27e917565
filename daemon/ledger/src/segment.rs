//! The files of a chain: `000001.jsonl`, `000002.jsonl`, … without a gap.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

/// The most files of one chain: what six digits count. At the default size that is 8 TB.
pub(crate) const FILES_MAX: u32 = 999_999;

/// Why the files of a folder are not those of a chain.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A number is left out.
    #[error("file `{missing}` is missing from `{folder}`; `{next}` follows")]
    Gap {
        /// The folder.
        folder: PathBuf,
        /// The file that is not there.
        missing: String,
        /// The one after it that is.
        next: String,
    },
    /// The folder cannot be listed.
    #[error("cannot list `{folder}`")]
    List {
        /// The folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Something that is not a file of the chain.
    #[error("`{name}` in `{folder}` is not a file of the chain; move it away")]
    Stranger {
        /// The folder.
        folder: PathBuf,
        /// Its name.
        name: String,
    },
}

/// One file's name.
pub(crate) fn name(number: u32) -> String {
    format!("{number:06}.jsonl")
}

/// The name of what was cut off a file at `offset`, and kept.
pub(crate) fn lost_name(number: u32, offset: u64) -> String {
    format!("{number:06}.{offset}.lost")
}

fn is_lost(name: &str) -> bool {
    let parts = name
        .strip_suffix(".lost")
        .and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(file, offset)| {
        number(&format!("{file}.jsonl")).is_some()
            && !offset.is_empty()
            && offset.bytes().all(|b| b.is_ascii_digit())
    })
}

fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".jsonl")?;
    let plain = digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_digit());
    plain
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|n| *n > 0)
}

/// How many files the chain has. They are numbered from 1, so the count is also the last one.
pub(crate) fn count(folder: &Path) -> Result<u32, FilesError> {
    match list(folder)? {
        (last, None) => Ok(last),
        (_last, Some(wrong)) => Err(wrong),
    }
}

/// The last file before the first gap, and what is wrong with the folder, if anything is.
pub(crate) fn list(folder: &Path) -> Result<(u32, Option<FilesError>), FilesError> {
    let list = |source| FilesError::List {
        folder: folder.into(),
        source,
    };
    let mut numbers = Vec::new();
    let mut wrong = None;
    for entry in fs::read_dir(folder).map_err(list)? {
        let file_name = entry.map_err(list)?.file_name();
        match file_name.to_str().and_then(number) {
            Some(number) => numbers.push(number),
            None if file_name.to_str().is_some_and(is_lost) => {}
            None => {
                wrong = Some(FilesError::Stranger {
                    folder: folder.into(),
                    name: file_name.to_string_lossy().escape_debug().to_string(),
                });
            }
        }
    }
    numbers.sort_unstable();
    let mut last = 0_u32;
    for number in numbers {
        let expected = last.saturating_add(1);
        if number != expected {
            let gap = FilesError::Gap {
                folder: folder.into(),
                missing: name(expected),
                next: name(number),
            };
            return Ok((last, Some(gap)));
        }
        last = number;
    }
    Ok((last, wrong))
}

/// Opens a file of the chain for reading. A symbolic link is refused, and so is whatever is not
/// a regular file.
pub(crate) fn read(folder: &Path, number: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits() | OFlag::O_NONBLOCK.bits())
        .open(folder.join(name(number)))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    Ok(file)
}

/// Opens the last file for appending. `O_APPEND`, so that a write never lands inside the file.
pub(crate) fn append(folder: &Path, number: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(folder.join(name(number)))
}

/// Makes the next file, and makes its name durable (fsync(2): the folder needs one of its own).
pub(crate) fn create(folder: &Path, number: u32) -> io::Result<File> {
    if number > FILES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            "the chain has 999,999 files",
        ));
    }
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(folder.join(name(number)))?;
    let durable = File::open(folder).and_then(|folder| folder.sync_all());
    if let Err(error) = durable {
        // Nothing is in it, and the next try must find the name free.
        fs::remove_file(folder.join(name(number)))?;
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_from_one_without_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(count(dir.path()).unwrap(), 0);
        for n in 1..=3 {
            let _file = create(dir.path(), n).unwrap();
            assert_eq!(count(dir.path()).unwrap(), n);
        }
        fs::remove_file(dir.path().join(name(2))).unwrap();
        let error = count(dir.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("file `000002.jsonl` is missing"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_first_file_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name(2)), "").unwrap();
        assert!(matches!(count(dir.path()), Err(FilesError::Gap { .. })));
    }

    #[test]
    fn a_stranger_in_the_folder_is_refused() {
        for stranger in [
            "1.jsonl",
            "0000001.jsonl",
            "000000.jsonl",
            "000001.json",
            "+00001.jsonl",
            "x",
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(stranger), "").unwrap();
            assert!(
                matches!(count(dir.path()), Err(FilesError::Stranger { .. })),
                "{stranger}"
            );
        }
    }

    #[test]
    fn a_symbolic_link_is_not_a_file_of_the_chain() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join(name(1))).unwrap();
        assert!(read(dir.path(), 1).is_err());
        assert!(append(dir.path(), 1).is_err());
    }

    #[test]
    fn a_file_that_is_there_is_never_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let _file = create(dir.path(), 1).unwrap();
        assert!(create(dir.path(), 1).is_err());
    }
}
