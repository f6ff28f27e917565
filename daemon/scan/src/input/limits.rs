//! How much a run reads. Whatever is beyond is refused whole: nothing is cut, nothing partial is said.

use gate::json::Limits;

/// Most bytes of one file.
pub const FILE_BYTES: usize = 8 << 20;
/// Most bytes of all files of a run.
pub const RUN_BYTES: usize = 16 << 20;
/// Most files of a run.
pub const DOCUMENTS: usize = 500;
/// Most tools of one file.
pub const TOOLS: usize = 500;
/// Most arguments of one tool, nested ones included.
pub const ARGUMENTS: usize = 2_000;
/// Most members of one `enum`.
pub const CHOICES: usize = 10_000;
/// Most steps that a file may take: a subschema is one, as often as references lead to it, and so are 64 bytes of text
/// that stand with it. A file has at most [`NODES`] values and [`FILE_BYTES`], so only references that multiply, and
/// names that stand in many places, get here.
pub const STEPS: usize = 200_000;
/// Most references behind one another, and most arguments inside one another.
pub const DEPTH: usize = 64;
/// Most bytes of a tool's name.
pub const NAME_BYTES: usize = 512;
/// Most values and keys of one file.
pub const NODES: usize = 100_000;

/// The same, for the parser.
pub(super) const JSON: Limits = Limits {
    bytes: FILE_BYTES,
    depth: Limits::DEPTH_MAX,
    nodes: NODES,
};
