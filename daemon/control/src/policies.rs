//! Which policies there are: the compiled files that custodyd wrote, and gate and vault read.

use std::{fs, io, path::Path};

use custody_wire::doctor;
use gate::id::PolicyName;

/// What a compiled policy's file is named after its name.
const EXTENSION: &str = "policy";

/// The names of the policies in `folder`, in order. Read anew each time: custodyd may add some.
///
/// # Errors
/// When the folder cannot be listed.
pub fn list(folder: &Path) -> io::Result<Vec<PolicyName>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == EXTENSION)
            && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
            && let Ok(name) = PolicyName::parse(stem)
            // Nobody chooses it: `custody doctor` asks for it by name.
            && name.as_str() != doctor::POLICY
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compiled_policies_with_a_name_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "mail.policy",
            "custody-doctor.policy",
            "a.policy",
            "B.policy",
            "x.toml",
            ".policy",
        ] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let names = list(folder.path()).unwrap();
        let names: Vec<_> = names.iter().map(PolicyName::as_str).collect();
        assert_eq!(names, ["a", "mail"]);
        assert!(list(&folder.path().join("none")).is_err());
    }
}
