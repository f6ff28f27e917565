//! The kernel's own types (`/sys/kernel/btf/vmlinux`): ids of functions and structs, and where a
//! struct's members lie. Ids change with every build of a kernel, so they are looked up.
//!
//! Format: the kernel's `Documentation/bpf/btf.rst`, version 1.

use std::{fs, io, path::Path};

/// Where the running kernel shows its types (CONFIG_DEBUG_INFO_BTF).
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// What a type is; only what we look for by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Kind {
    /// A function.
    Func = 12,
    /// A struct.
    Struct = 4,
}

/// Why a type is not found.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The bytes are not BTF as we know it.
    #[error("`{VMLINUX}` is not BTF version 1 (at byte {at})")]
    Format {
        /// Where.
        at: usize,
    },
    /// The kernel has no such function or type: it is too old, or built without it.
    #[error("the kernel has no {what} `{name}`; Linux 6.12 or newer with BTF is needed")]
    Missing {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read `{VMLINUX}`; the kernel needs CONFIG_DEBUG_INFO_BTF")]
    Read(#[source] io::Error),
}

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Where each type begins; index + 1 is its id.
    types: Vec<usize>,
    strings: usize,
}

/// Magic, version 1, no flags; then the header's length and four offsets.
const HEAD: u32 = 0x0001_eb9f;
/// Name, info, size or type.
const TYPE: usize = 12;
/// A member: name, type, offset in bits.
const MEMBER: usize = 12;
/// A parameter: name, type.
const PARAMETER: usize = 8;

// Kinds that may stand in a struct without a name.
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// How deep structs without a name stand in each other at most.
const NESTED_MAX: u32 = 8;

impl Btf {
    /// Reads the running kernel's types.
    ///
    /// # Errors
    /// See [`BtfError`].
    pub fn read() -> Result<Self, BtfError> {
        Self::parse(fs::read(Path::new(VMLINUX)).map_err(BtfError::Read)?)
    }

    /// Parses the bytes of a BTF blob.
    ///
    /// # Errors
    /// [`BtfError::Format`].
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let word = |at: usize| read(&bytes, at);
        let size = |at: usize| -> Result<usize, BtfError> {
            usize::try_from(read(&bytes, at)?).map_err(|_wide| BtfError::Format { at })
        };
        if word(0)? != HEAD {
            return Err(BtfError::Format { at: 0 });
        }
        let head = size(4)?;
        let start = head.saturating_add(size(8)?);
        let end = start.saturating_add(size(12)?);
        let strings = head.saturating_add(size(16)?);
        let mut types = Vec::new();
        let mut at = start;
        while at < end {
            types.push(at);
            let info = word(at.saturating_add(4))?;
            let tail = tail(info).ok_or(BtfError::Format { at })?;
            at = at.saturating_add(TYPE).saturating_add(tail);
        }
        Ok(Self {
            bytes,
            types,
            strings,
        })
    }

    /// The id of the function or struct `name`.
    ///
    /// # Errors
    /// [`BtfError::Missing`] where there is none.
    pub fn id(&self, name: &str, kind: Kind) -> Result<i32, BtfError> {
        self.find(name, kind).map(|(id, _)| id)
    }

    /// Where `member` lies in the struct `name`, in bytes. Members of structs and unions without
    /// a name count as its own, as in C.
    ///
    /// # Errors
    /// [`BtfError::Missing`] where there is none, or it is a bit field.
    pub fn member(&self, name: &str, member: &str) -> Result<i32, BtfError> {
        let (_, at) = self.find(name, Kind::Struct)?;
        let bits = self.bits_to(at, member.as_bytes(), NESTED_MAX)?;
        match bits {
            Some(bits) if bits % 8 == 0 => {
                i32::try_from(bits / 8).map_err(|_wide| BtfError::Format { at })
            }
            Some(_) | None => Err(BtfError::Missing {
                what: "member",
                name: format!("{name}.{member}"),
            }),
        }
    }

    /// Which parameter of the function `name` is called `parameter`, from 0.
    ///
    /// # Errors
    /// [`BtfError::Missing`] where there is none.
    pub fn parameter(&self, name: &str, parameter: &str) -> Result<usize, BtfError> {
        let (_, at) = self.find(name, Kind::Func)?;
        let prototype = self.of_id(read(&self.bytes, at.saturating_add(8))?)?;
        let info = read(&self.bytes, prototype.saturating_add(4))?;
        for index in 0..count(info) {
            let at = prototype
                .saturating_add(TYPE)
                .saturating_add(index.saturating_mul(PARAMETER));
            if self.name(read(&self.bytes, at)?) == parameter.as_bytes() {
                return Ok(index);
            }
        }
        Err(BtfError::Missing {
            what: "parameter",
            name: format!("{name}({parameter})"),
        })
    }

    /// The offset in bits of `member` in the struct or union at `at`.
    fn bits_to(&self, at: usize, member: &[u8], nested: u32) -> Result<Option<u32>, BtfError> {
        let info = read(&self.bytes, at.saturating_add(4))?;
        for index in 0..count(info) {
            let at = at
                .saturating_add(TYPE)
                .saturating_add(index.saturating_mul(MEMBER));
            let name = self.name(read(&self.bytes, at)?);
            // The low 24 bits are the offset in both forms (kind_flag).
            let bits = read(&self.bytes, at.saturating_add(8))? & 0x00ff_ffff;
            if name == member {
                return Ok(Some(bits));
            }
            if name.is_empty() && nested > 0 {
                let inner = self.of_id(read(&self.bytes, at.saturating_add(4))?)?;
                let kind = (read(&self.bytes, inner.saturating_add(4))? >> 24) & 0x1f;
                if matches!(kind, STRUCT | UNION)
                    && let Some(more) = self.bits_to(inner, member, nested.saturating_sub(1))?
                {
                    return Ok(Some(bits.saturating_add(more)));
                }
            }
        }
        Ok(None)
    }

    /// Where the type with an id begins.
    fn of_id(&self, id: u32) -> Result<usize, BtfError> {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.types.get(id.checked_sub(1)?))
            .copied()
            .ok_or(BtfError::Format { at: 0 })
    }

    fn find(&self, name: &str, kind: Kind) -> Result<(i32, usize), BtfError> {
        for (id, at) in (1_i32..).zip(self.types.iter().copied()) {
            let info = read(&self.bytes, at.saturating_add(4))?;
            if (info >> 24) & 0x1f == kind as u32
                && self.name(read(&self.bytes, at)?) == name.as_bytes()
            {
                return Ok((id, at));
            }
        }
        Err(BtfError::Missing {
            what: match kind {
                Kind::Func => "function",
                Kind::Struct => "struct",
            },
            name: name.into(),
        })
    }

    fn name(&self, offset: u32) -> &[u8] {
        let at = usize::try_from(offset).map_or(usize::MAX, |o| self.strings.saturating_add(o));
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

fn read(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map(|word| u32::from_ne_bytes(*word))
        .ok_or(BtfError::Format { at })
}

fn count(info: u32) -> usize {
    usize::from(u16::try_from(info & 0xffff).unwrap_or(u16::MAX))
}

/// How many bytes follow a type of this info word; none for a kind that we do not know.
fn tail(info: u32) -> Option<usize> {
    let each = |size: usize| Some(count(info).saturating_mul(size));
    match (info >> 24) & 0x1f {
        1 | 14 | 17 => Some(4),                            // INT, VAR, DECL_TAG
        2 | 7 | 8 | 9 | 10 | 11 | 12 | 16 | 18 => Some(0), // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        3 => Some(12),                                     // ARRAY
        4 | 5 | 15 | 19 => each(12),                       // STRUCT, UNION, DATASEC, ENUM64
        6 | 13 => each(8),                                 // ENUM, FUNC_PROTO
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_names_what_the_hooks_need() {
        if !Path::new(VMLINUX).exists() {
            println!("not attempted: needs a kernel with BTF");
            return;
        }
        let btf = Btf::read().unwrap();
        assert!(btf.id("sockaddr_un", Kind::Struct).unwrap() > 0);
        // unix(7): sun_path follows a two-byte family.
        assert_eq!(btf.member("sockaddr_un", "sun_path").unwrap(), 2);
        assert!(matches!(
            btf.id("no_such_function_of_a_kernel", Kind::Func),
            Err(BtfError::Missing { .. })
        ));
        assert!(matches!(
            btf.member("sockaddr_un", "no_such_member"),
            Err(BtfError::Missing { .. })
        ));
        // In a union and a struct without names (include/linux/dcache.h).
        assert!(btf.member("qstr", "name").unwrap() > 0);
        assert_eq!(btf.parameter("bpf_lsm_bpf", "attr").unwrap(), 1);
        assert!(matches!(
            btf.parameter("bpf_lsm_bpf", "no_such_parameter"),
            Err(BtfError::Missing { .. })
        ));
    }

    #[test]
    fn bytes_that_are_not_btf_are_refused_wherever_they_are_cut() {
        assert!(Btf::parse(Vec::new()).is_err());
        assert!(Btf::parse(vec![0; 64]).is_err());
        let mut cut = HEAD.to_ne_bytes().to_vec();
        for word in [24_u32, 0, 12, 12, 0] {
            cut.extend_from_slice(&word.to_ne_bytes());
        }
        assert!(matches!(Btf::parse(cut), Err(BtfError::Format { .. })));
    }
}
