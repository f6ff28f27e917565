//! The host's own sources, in both forms of sources.list(5).

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

/// The folder of apt's configuration.
const ETC: &str = "/etc/apt";

/// From where Debian is installed here, and whose signature counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::guest) struct Source {
    uri: String,
    /// A file; apt's own trusted keys where the entry names none.
    keyring: Option<String>,
}

impl Source {
    /// The first enabled entry for the host's own release with the component `main`.
    pub(in crate::guest) fn of_host() -> Result<Self> {
        let os = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
        let codename = codename(&os).context("this host is not a Debian release")?;
        let mut files = vec![PathBuf::from(ETC).join("sources.list")];
        if let Ok(parts) = fs::read_dir(PathBuf::from(ETC).join("sources.list.d")) {
            files.extend(parts.flatten().map(|entry| entry.path()));
        }
        files.sort();
        files
            .iter()
            .find_map(|file| {
                let text = fs::read_to_string(file).ok()?;
                match file.extension()?.to_str()? {
                    "list" => one_line(&text, &codename),
                    "sources" => stanzas(&text, &codename),
                    _ => None,
                }
            })
            .with_context(|| format!("no source below `{ETC}` is of Debian {codename} main"))
    }

    /// The entry for `suite`, in the one-line form.
    pub(in crate::guest) fn line(&self, suite: &str) -> String {
        let options = self
            .keyring
            .as_ref()
            .map(|keyring| format!("[signed-by={keyring}] "))
            .unwrap_or_default();
        format!("deb {options}{} {suite} main\n", self.uri)
    }
}

fn codename(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        os_release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches('"').to_owned())
    };
    (field("ID")? == "debian").then(|| field("VERSION_CODENAME"))?
}

/// `deb [signed-by=FILE] URI SUITE COMPONENT…`
fn one_line(text: &str, codename: &str) -> Option<Source> {
    text.lines().find_map(|line| {
        let entry = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, entry) = match entry.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", entry),
        };
        let mut words = entry.split_whitespace();
        let uri = words.next()?;
        let fits = words.next()? == codename && words.any(|component| component == "main");
        fits.then(|| Source {
            uri: uri.to_owned(),
            keyring: options
                .split_whitespace()
                .find_map(|option| option.strip_prefix("signed-by="))
                .map(str::to_owned),
        })
    })
}

/// The deb822 form. A key that stands in the file itself is not taken over: apt's trusted keys
/// are Debian's too.
fn stanzas(text: &str, codename: &str) -> Option<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.join("\n").split("\n\n").find_map(|stanza| {
        let field = |name: &str| {
            stanza.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let has = |name: &str, word: &str| {
            field(name).is_some_and(|value| value.split_whitespace().any(|found| found == word))
        };
        let fits = has("Types", "deb")
            && has("Suites", codename)
            && has("Components", "main")
            && !has("Enabled", "no");
        fits.then(|| {
            Some(Source {
                uri: field("URIs")?.split_whitespace().next()?.to_owned(),
                keyring: field("Signed-By")
                    .filter(|value| value.starts_with('/'))
                    .map(str::to_owned),
            })
        })?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str, keyring: Option<&str>) -> Option<Source> {
        Some(Source {
            uri: uri.into(),
            keyring: keyring.map(str::to_owned),
        })
    }

    #[test]
    fn a_one_line_entry_is_found_with_its_keyring() {
        let text = "# deb http://old.example/debian trixie main\n\
                    deb http://a.example/debian trixie-updates main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://b.example/debian trixie contrib main\n";
        assert_eq!(
            one_line(text, "trixie"),
            source("http://b.example/debian", Some("/k.gpg"))
        );
        assert_eq!(one_line(text, "bookworm"), None);
        assert_eq!(
            one_line("deb http://a.example trixie main", "trixie"),
            source("http://a.example", None)
        );
    }

    #[test]
    fn a_stanza_is_found_unless_it_is_disabled_or_anothers() {
        let stanza = |more: &str| {
            format!(
                "Types: deb\n# why\nURIs: http://a.example/debian\nSuites: trixie trixie-updates\n\
                 Components: main\nSigned-By: /k.gpg\n{more}"
            )
        };
        assert_eq!(
            stanzas(&stanza(""), "trixie"),
            source("http://a.example/debian", Some("/k.gpg"))
        );
        assert_eq!(stanzas(&stanza("Enabled: no\n"), "trixie"), None);
        assert_eq!(stanzas(&stanza(""), "bookworm"), None);
    }

    #[test]
    fn only_debian_has_a_codename_here() {
        let text = "ID=debian\nVERSION_CODENAME=trixie\n";
        assert_eq!(codename(text).as_deref(), Some("trixie"));
        assert_eq!(codename("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
    }

    #[test]
    fn the_entry_for_another_suite_keeps_the_keyring() {
        let of_host = source("http://a.example", Some("/k.gpg")).unwrap();
        assert_eq!(
            of_host.line("sid"),
            "deb [signed-by=/k.gpg] http://a.example sid main\n"
        );
    }
}
