//! Files that are written whole or not at all.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// How often another name is tried beside the file.
const TRIES: u32 = 100;

/// Writes `bytes` to the file at `path`: beside it first, to disk, then in its place at once. A file that is
/// there keeps its mode. Whatever happens, nobody sees a part of it.
///
/// # Errors
/// When its folder is not there, something that is no plain file stands at `path`, or the kernel refuses.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let shown = path.display();
    let mode = match fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_file() => Some(about.permissions().mode()),
        Ok(_other) => bail!("`{shown}` is no plain file, and is not replaced; name another one"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot look at `{shown}`")),
    };
    let (beside, mut file) =
        create_beside(path).with_context(|| format!("cannot write `{shown}`"))?;
    let written = file
        .write_all(bytes)
        .and_then(|()| match mode {
            Some(mode) => file.set_permissions(fs::Permissions::from_mode(mode)),
            None => Ok(()),
        })
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of it is no file of anybody's.
        drop(fs::remove_file(&beside));
    }
    written.with_context(|| format!("cannot write `{shown}`"))
}

/// A new file in the folder of `path`, by a name that nobody has.
fn create_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let name = path
        .file_name()
        .ok_or(io::Error::from(io::ErrorKind::IsADirectory))?;
    for number in 0..TRIES {
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.{number}", std::process::id()));
        let beside = path.with_file_name(beside);
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(&beside);
        match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (beside, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn what_is_no_plain_file_is_left_alone_and_a_missing_folder_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("target"), "kept").unwrap();
        std::os::unix::fs::symlink("target", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for name in ["link", "folder"] {
            let error = write(&path(name), b"x").unwrap_err().to_string();
            assert!(error.contains("no plain file"), "{error}");
        }
        assert_eq!(fs::read(path("target")).unwrap(), b"kept");
        let error = write(&path("missing/file"), b"x").unwrap_err();
        assert!(format!("{error:#}").contains("missing/file"), "{error:#}");
    }
}
