//! Which layers a profile requires. A session does not start with less.
//!
//! | profile | requires |
//! |---|---|
//! | `hardened` | every layer |
//! | `standard` | every layer but BPF LSM, which a kernel may refuse, and the cgroup's own limits, for which a host may have no controller |
//! | `dev` | the same, and inside its pid namespace a process may trace another: a *named weakness* |

pub use gate::policy::Profile;

use crate::layer::Layer;

/// Whether `profile` requires `layer` in full.
pub const fn requires(profile: Profile, layer: Layer) -> bool {
    match (profile, layer) {
        (Profile::Dev | Profile::Standard, Layer::BpfLsm | Layer::CgroupLimits) => false,
        (Profile::Dev | Profile::Standard | Profile::Hardened, _) => true,
    }
}

/// What is open under `profile` that a stricter one closes, each in a sentence for the operator.
pub const fn weaknesses(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Dev => &[
            "ptrace: inside the session a process may trace and rewrite another of the same session",
        ],
        Profile::Standard | Profile::Hardened => &[],
    }
}
