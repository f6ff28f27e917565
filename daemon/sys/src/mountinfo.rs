//! The mounts of a mount namespace (proc_pid_mountinfo(5)), read as bytes: any user who may mount
//! with FUSE chooses names of mounts that are not UTF-8.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// One line. Paths are as they are, not as they are escaped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// The mount's number.
    pub id: i32,
    /// `major:minor`, as the kernel has it.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Options of the mount, as they are written: `rw,nosuid`.
    pub options: String,
    /// The file system's type.
    pub fs_type: String,
}

impl Mount {
    /// Whether the mount has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|it| it == option)
    }
}

/// The mounts of this process.
///
/// # Errors
/// When procfs does not say, or says what is no mount.
pub fn own() -> io::Result<Vec<Mount>> {
    parse(&fs::read("/proc/self/mountinfo")?)
}

/// The mounts that process `pid` sees, by their places in its root.
///
/// # Errors
/// As [`own`], and when it is gone.
pub fn of(pid: i32) -> io::Result<Vec<Mount>> {
    parse(&fs::read(format!("/proc/{pid}/mountinfo"))?)
}

/// The mount points strictly below `path`.
///
/// # Errors
/// As [`own`].
pub fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(own()?
        .into_iter()
        .map(|mount| mount.point)
        .filter(|point| point != path && point.starts_with(path))
        .collect())
}

/// Reads the file's text.
///
/// # Errors
/// When a line is no mount.
pub fn parse(text: &[u8]) -> io::Result<Vec<Mount>> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            mount(line).ok_or_else(|| {
                let line = String::from_utf8_lossy(line);
                io::Error::new(io::ErrorKind::InvalidData, format!("no mount: {line:?}"))
            })
        })
        .collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let device = fields.nth(1)?;
    let colon = device.iter().position(|byte| *byte == b':')?;
    let (major, minor) = device.split_at_checked(colon)?;
    let root = fields.next()?;
    let point = fields.next()?;
    let options = fields.next()?;
    // Optional fields end with a hyphen.
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        id: i32::try_from(id).ok()?,
        device: (number(major)?, number(minor.get(1..)?)?),
        root: plain(root),
        point: plain(point),
        options: String::from_utf8_lossy(options).into_owned(),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

/// Space, tab, newline and backslash come as three octal digits.
fn plain(text: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let octal = match (first, tail) {
            (b'\\', [a, b, c, after @ ..]) => std::str::from_utf8(&[*a, *b, *c])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok())
                .map(|byte| (byte, after)),
            _ => None,
        };
        let (byte, after) = octal.unwrap_or((*first, tail));
        plain.push(byte);
        rest = after;
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn names_that_are_no_text_are_names() {
        let text = b"36 35 98:0 /mnt1 /mnt/\xff\\040a\\134 rw,noatime master:1 shared:2 - ext3 /dev/root rw\n\
            22 1 254:0 / / rw - ext4 /dev/r rw\n";
        let found = parse(text).unwrap();
        let [first, second] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(first.point.as_os_str().as_bytes(), b"/mnt/\xff a\\");
        assert_eq!((first.id, first.device), (36, (98, 0)));
        assert_eq!(first.root, Path::new("/mnt1"));
        assert!(first.has("noatime") && !first.has("atime") && !first.has("ro"));
        assert_eq!(
            (first.fs_type.as_str(), second.fs_type.as_str()),
            ("ext3", "ext4")
        );
        assert!(parse(b"36 35 98:0 /mnt1\n").is_err());
        assert_eq!(plain(br"/a\9\04").as_os_str().as_bytes(), br"/a\9\04");
    }

    #[test]
    fn a_process_that_is_gone_has_no_mounts() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(of(pid).unwrap(), own().unwrap());
        assert!(of(i32::MAX).is_err());
    }

    #[test]
    fn the_mounts_below_root_are_there_and_root_is_not() {
        let below = below(Path::new("/")).unwrap();
        assert!(below.contains(&"/proc".into()));
        assert!(!below.contains(&"/".into()));
    }
}
