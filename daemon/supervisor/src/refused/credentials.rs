//! What a credential looks like: names of files and variables, and forms of values.
//!
//! Only what is unlikely to be anything else: a refusal that is often wrong is soon switched off. The
//! forms are those that the issuers publish for scanners.

/// Endings of a variable's name after which its value is a credential.
const ENDINGS: [&str; 12] = [
    "ACCESS_KEY",
    "ACCESS_TOKEN",
    "API_KEY",
    "APIKEY",
    "AUTH_TOKEN",
    "CREDENTIALS",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SECRET_KEY",
    "TOKEN",
];

/// The shortest value that can be a credential: `true`, `none`, a port are not.
const VALUE_MIN: usize = 8;

/// How a token begins, and how many letters, digits, `-` and `_` follow at least.
const PREFIXES: [(&[u8], usize); 21] = [
    (b"AIza", 30),
    (b"AKIA", 16),
    (b"ASIA", 16),
    (b"dop_v1_", 32),
    (b"gho_", 30),
    (b"ghp_", 30),
    (b"ghs_", 30),
    (b"ghu_", 30),
    (b"github_pat_", 30),
    (b"glpat-", 20),
    (b"hf_", 30),
    (b"npm_", 30),
    (b"pypi-", 40),
    (b"rk_live_", 20),
    (b"sk-ant-", 20),
    (b"sk-proj-", 20),
    (b"sk_live_", 20),
    (b"xoxb-", 20),
    (b"xoxp-", 20),
    (b"xapp-", 20),
    (b"ya29.", 20),
];

/// RFC 7468, section 10, and what PEM files of OpenSSL and OpenSSH begin with.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

/// Whether bytes hold a token or a private key of a known form.
pub fn has_form(bytes: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins = |at: usize| {
        at == 0
            || bytes
                .get(at.saturating_sub(1))
                .is_none_or(|it| !is_part(it))
    };
    for at in 0..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.starts_with(PRIVATE_KEY) {
            return true;
        }
        let token = PREFIXES.iter().any(|(prefix, least)| {
            rest.strip_prefix(*prefix).is_some_and(|tail| {
                begins(at) && tail.iter().take_while(|it| is_part(it)).count() >= *least
            })
        });
        if token {
            return true;
        }
    }
    false
}

/// Whether a variable is a credential, by its name and a value that may be one, or by its value.
pub fn is_variable(name: &[u8], value: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let named = ENDINGS
        .iter()
        .any(|ending| name.ends_with(ending.as_bytes()));
    // A path to where it lies, or a reference to another variable, is not the thing.
    let is_reference = value
        .first()
        .is_some_and(|first| matches!(first, b'$' | b'/' | b'<'));
    (named && value.len() >= VALUE_MIN && !is_reference) || has_form(value)
}

/// Which part of a file must look like a credential.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holds {
    /// The name says enough: the file has no other use.
    Whatever,
    /// These bytes stand in it.
    Bytes(&'static [u8]),
    /// A token or private key of a known form.
    Form,
    /// Lines `NAME=VALUE`, one of which is a credential.
    Variables,
}

/// Folders below which a file of this name is one.
const IN_FOLDER: [(&str, &str, Holds); 8] = [
    (
        ".aws",
        "credentials",
        Holds::Bytes(b"aws_secret_access_key"),
    ),
    (".azure", "msal_token_cache.json", Holds::Whatever),
    (".cargo", "credentials.toml", Holds::Bytes(b"token")),
    (".config", "hosts.yml", Holds::Bytes(b"oauth_token")),
    (".docker", "config.json", Holds::Bytes(b"\"auth\"")),
    (".kube", "config", Holds::Bytes(b"client-key-data")),
    (
        "gcloud",
        "application_default_credentials.json",
        Holds::Whatever,
    ),
    ("gh", "hosts.yml", Holds::Bytes(b"oauth_token")),
];

/// Files that are one wherever they lie.
const ANYWHERE: [(&str, Holds); 12] = [
    (".git-credentials", Holds::Bytes(b"://")),
    (".netrc", Holds::Bytes(b"password")),
    (".npmrc", Holds::Bytes(b"_authToken=")),
    (".pgpass", Holds::Bytes(b":")),
    (".pypirc", Holds::Bytes(b"password")),
    ("_netrc", Holds::Bytes(b"password")),
    ("id_dsa", Holds::Form),
    ("id_ecdsa", Holds::Form),
    ("id_ed25519", Holds::Form),
    ("id_rsa", Holds::Form),
    ("service-account.json", Holds::Form),
    ("terraform.tfstate", Holds::Form),
];

/// What a file of this name must hold to be a credential's; none for other names.
pub fn holds(folder: &str, name: &str) -> Option<Holds> {
    let inside = IN_FOLDER
        .iter()
        .find(|(in_folder, known, _)| folder == *in_folder && name == *known)
        .map(|(_, _, holds)| *holds);
    let anywhere = ANYWHERE
        .iter()
        .find(|(known, _)| name == *known)
        .map(|(_, holds)| *holds);
    // `.env`, `.env.local`, `prod.env`; `.env.example` is for others to read.
    let example = [".example", ".sample", ".template", ".dist"]
        .iter()
        .any(|ending| name.ends_with(ending));
    let environment =
        (name == ".env" || name.starts_with(".env.") || name.ends_with(".env")) && !example;
    let pem = [".pem", ".key", ".p8"]
        .iter()
        .any(|ending| name.ends_with(ending));
    inside
        .or(anywhere)
        .or(environment.then_some(Holds::Variables))
        .or(pem.then_some(Holds::Bytes(PRIVATE_KEY)))
}

impl Holds {
    /// Whether the beginning of the file shows it.
    pub fn is_in(self, bytes: &[u8]) -> bool {
        match self {
            Self::Whatever => !bytes.is_empty(),
            Self::Bytes(part) => bytes.windows(part.len()).any(|window| window == part),
            Self::Form => has_form(bytes),
            Self::Variables => bytes.split(|byte| *byte == b'\n').any(is_assignment),
        }
    }
}

/// `export NAME="VALUE"`.
fn is_assignment(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"export ").unwrap_or(line);
    let Some(at) = line.iter().position(|byte| *byte == b'=') else {
        return false;
    };
    let (name, value) = line.split_at_checked(at).unwrap_or((line, &[]));
    let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii();
    let value = [b'"', b'\'']
        .iter()
        .find_map(|quote| value.strip_prefix(&[*quote])?.strip_suffix(&[*quote]))
        .unwrap_or(value);
    !name.starts_with(b"#") && is_variable(name.trim_ascii(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(prefix: &str) -> String {
        format!("{prefix}{}", "fakefortests".repeat(6))
    }

    #[test]
    fn tokens_and_private_keys_are_known_by_their_form_and_words_are_not() {
        for prefix in ["ghp_", "sk-ant-", "AKIA", "glpat-", "xoxb-"] {
            assert!(has_form(fake(prefix).as_bytes()), "{prefix}");
            assert!(
                has_form(format!("key: {}", fake(prefix)).as_bytes()),
                "{prefix}"
            );
        }
        assert!(has_form(b"-----BEGIN OPENSSH PRIVATE KEY-----\nnone"));
        for word in [
            "risk-proj-management-of-everything",
            "ghp_short",
            "",
            "-----BEGIN CERTIFICATE-----",
        ] {
            assert!(!has_form(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn a_variable_is_one_by_name_or_by_form() {
        for (name, value) in [
            ("SERVICE_API_KEY", "fake-for-tests"),
            ("db_password", "fake-for-tests"),
        ] {
            assert!(is_variable(name.as_bytes(), value.as_bytes()), "{name}");
        }
        assert!(is_variable(b"X", fake("ghp_").as_bytes()));
        for (name, value) in [
            ("LANG", "C.UTF-8"),
            ("GIT_AUTHOR_NAME", "somebody"),
            ("API_KEY", "none"),
            ("SSH_PRIVATE_KEY", "/home/a/key"),
            ("TOKEN", "${TOKEN_FROM_VAULT}"),
            ("TOKENIZERS_PARALLELISM", "false"),
        ] {
            assert!(!is_variable(name.as_bytes(), value.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_file_needs_its_name_and_what_makes_it_a_credential() {
        let is = |folder: &str, name: &str, text: &str| {
            holds(folder, name).is_some_and(|it| it.is_in(text.as_bytes()))
        };
        assert!(is(
            "",
            ".env",
            "A=1\nexport DB_PASSWORD=\"fake-for-tests\"\n"
        ));
        assert!(is(
            ".docker",
            "config.json",
            r#"{"auths": {"x": {"auth": "ZmFrZQ=="}}}"#
        ));
        assert!(is("deep", ".netrc", "machine x login y password fake"));
        assert!(is("", "server.key", "-----BEGIN PRIVATE KEY-----"));
        assert!(!is(
            "",
            ".env",
            "A=1\n# DB_PASSWORD=fake-for-tests\nDEBUG=true\n"
        ));
        assert!(!is("", ".env.example", "DB_PASSWORD=fake-for-tests"));
        assert!(!is(".docker", "config.json", r#"{"credsStore": "x"}"#));
        assert!(!is("", "cert.pem", "-----BEGIN CERTIFICATE-----"));
        assert!(!is("src", "main.rs", "-----BEGIN PRIVATE KEY-----"));
    }
}
