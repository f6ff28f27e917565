//! The uncompressed kernel out of a bzImage: QEMU's emulator boots it faster, and without the
//! decompressor's newest instructions.
//!
//! The header is described in the kernel's `Documentation/arch/x86/boot.rst`.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// `setup_sects`: sectors of the real-mode part, after the first one.
const SETUP_SECTS: usize = 0x1f1;

/// `header`: "HdrS".
const MAGIC: usize = 0x202;

/// `payload_offset`, from the end of the real-mode part.
const PAYLOAD_OFFSET: usize = 0x248;

/// `payload_length`.
const PAYLOAD_LENGTH: usize = 0x24c;

/// What stands before each compressed form, and its program.
const FORMS: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ", "xz"),
    (b"\x02\x21\x4c\x18", "lz4"),
];

/// Unpacks the kernel in `image` into `vmlinux`.
pub(super) fn unpack(image: &Path, vmlinux: &Path) -> Result<()> {
    let bytes = fs::read(image).with_context(|| format!("`{}`", image.display()))?;
    let (packed, size) = payload(&bytes).with_context(|| format!("`{}`", image.display()))?;
    let program = FORMS
        .iter()
        .find(|(start, _)| packed.starts_with(start))
        .map(|(_, program)| *program)
        .context("its payload is packed in a form that is not known here")?;
    let kernel = run(program, packed)?;
    ensure!(
        kernel.len() == size && kernel.starts_with(b"\x7fELF"),
        "{program} made {} bytes of it, not an ELF file of {size}",
        kernel.len()
    );
    fs::write(vmlinux, kernel).with_context(|| format!("`{}`", vmlinux.display()))
}

/// The packed kernel, and how large it is unpacked: the build appends that in four bytes.
fn payload(image: &[u8]) -> Result<(&[u8], usize)> {
    let number = |at: usize| -> Option<usize> {
        let bytes: [u8; 4] = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        bail!("this is no bzImage");
    }
    let sectors = usize::from(*image.get(SETUP_SECTS).context("no header")?);
    let offset = number(PAYLOAD_OFFSET).context("no payload")?;
    let length = number(PAYLOAD_LENGTH).context("no payload")?;
    let start = (sectors + 1) * 512 + offset;
    let end = (start + length).checked_sub(4).context("no payload")?;
    let size = number(end).context("the payload is cut")?;
    let packed = image.get(start..end).context("the payload is cut")?;
    Ok((packed, size))
}

fn run(program: &str, packed: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let output = std::thread::scope(|scope| {
        // It ends early only with an error, which its status tells.
        scope.spawn(move || drop(stdin.write_all(packed)));
        child.wait_with_output()
    })?;
    ensure!(
        output.status.success(),
        "{program} failed: {}",
        output.status
    );
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(packed: &[u8], size: u32) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[SETUP_SECTS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&8_u32.to_le_bytes());
        let length = u32::try_from(packed.len() + 4).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend([0; 8]);
        image.extend(packed);
        image.extend(size.to_le_bytes());
        image
    }

    #[test]
    fn the_payload_lies_where_the_header_says() {
        assert_eq!(
            payload(&image(b"packed", 77)).unwrap(),
            (&b"packed"[..], 77)
        );
    }

    #[test]
    fn what_is_no_kernel_or_is_cut_is_an_error() {
        assert!(payload(b"MZ").is_err());
        let whole = image(b"packed", 77);
        assert!(payload(&whole[..whole.len() - 1]).is_err());
    }

    #[test]
    fn a_kernel_of_another_size_than_promised_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["bzImage", "vmlinux"].map(|name| folder.path().join(name));
        let elf = b"\x7fELF and more";
        let packed = Command::new("sh")
            .args(["-c", "printf '\\177ELF and more' | gzip -c"])
            .output()
            .unwrap()
            .stdout;
        fs::write(&from, image(&packed, 99)).unwrap();
        assert!(unpack(&from, &to).is_err());
        fs::write(&from, image(&packed, u32::try_from(elf.len()).unwrap())).unwrap();
        unpack(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), elf);
    }
}
