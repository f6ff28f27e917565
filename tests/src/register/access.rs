//! The small set of functions by which anything of ours obtains a credential or a key, and where
//! the syntax tree calls them.
//!
//! A credential is obtained through a typed function, never by a pattern of a name. So a reader
//! is a call in the tree, and an import that renames such a function or type is a finding itself.

use std::{collections::BTreeSet, fs, io, path::Path};

use syn::{
    Attribute, ExprMethodCall, ImplItemFn, ItemFn, ItemImpl, ItemMod, UseRename,
    visit::{self, Visit},
};

/// One way to obtain a credential or a key.
#[derive(Debug)]
struct Access {
    /// Its name in the register.
    name: &'static str,
    /// The last two words of the path of a function or variant (`Type::function`).
    paths: &'static [[&'static str; 2]],
    /// Names of methods.
    methods: &'static [&'static str],
}

/// All of them.
const ACCESS: &[Access] = &[
    Access {
        name: "credential.descriptor", // a descriptor of the file, not its bytes
        paths: &[
            ["VaultNotice", "Credential"],
            ["CredentialSource", "File"],
            ["CredentialSource", "Systemd"],
        ],
        methods: &[],
    },
    Access {
        name: "credential.read",
        paths: &[["Credential", "read"]],
        methods: &[],
    },
    Access {
        name: "credential.lend",
        paths: &[["Credential", "lend"], ["Credential", "hand_over"]],
        methods: &["hand_over", "lend"],
    },
    Access {
        name: "environment",
        paths: &[
            ["env", "remove_var"],
            ["env", "set_var"],
            ["env", "var"],
            ["env", "var_os"],
            ["env", "vars"],
            ["env", "vars_os"],
        ],
        methods: &[],
    },
    Access {
        name: "key.file",
        paths: &[["key", "load_or_create"], ["key", "load_or_rotate"]],
        methods: &[],
    },
    Access {
        name: "key.make",
        paths: &[
            ["SigningKey", "from_bytes"],
            ["SigningKey", "from_keypair_bytes"],
            ["SigningKey", "generate"],
            ["SigningKey", "try_from"],
            ["ExpandedSecretKey", "from_bytes"],
        ],
        methods: &[],
    },
    Access {
        name: "locked_memory",
        paths: &[["Locked", "copy_of"], ["Locked", "zeroed"]],
        methods: &[],
    },
    Access {
        name: "peer_credentials",
        paths: &[["peer", "credentials"]],
        methods: &["peer_cred"],
    },
];

/// Where the methods of an access are at home: a package that is not built from it means another
/// method of that name.
const METHODS_OF: &[[&str; 2]] = &[["credential.lend", "custody-vault"]];

/// Whether a package that is built from `closure` can mean this access.
pub fn can_mean(site: &str, closure: &BTreeSet<String>) -> bool {
    METHODS_OF
        .iter()
        .filter(|[access, _]| site.split(' ').next() == Some(access))
        .all(|[_, home]| closure.contains(*home))
}

/// Where a function of [`ACCESS`] is at home: what it calls there is itself.
const HOMES: &[[&str; 2]] = &[["locked_memory", "custody-sys::memory"]];

/// Where the code of one package obtains credentials: `ACCESS PACKAGE::MODULE`.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub fn sites(package: &str, source: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for file in files(source)? {
        let text = fs::read_to_string(&file)?;
        let module = module(package, source, &file);
        found.extend(
            in_text(&module, &text)
                .map_err(|error| io::Error::other(format!("`{}`: {error}", file.display())))?,
        );
    }
    Ok(found)
}

/// The same for one text.
///
/// # Errors
/// When it is not Rust.
pub fn in_text(module: &str, text: &str) -> syn::Result<BTreeSet<String>> {
    let file = syn::parse_file(text)?;
    if is_test(&file.attrs) {
        return Ok(BTreeSet::new());
    }
    let mut reader = Reader {
        own: None,
        found: BTreeSet::new(),
    };
    reader.visit_file(&file);
    Ok(reader
        .found
        .into_iter()
        .filter(|access| !HOMES.contains(&[access.as_str(), module]))
        .map(|access| format!("{access} {module}"))
        .collect())
}

struct Reader {
    /// The type whose `impl` we are in: `Self::read` is its function.
    own: Option<String>,
    found: BTreeSet<String>,
}

impl Reader {
    fn path(&mut self, words: &[String]) {
        let [.., first, last] = words else { return };
        let first = match (first.as_str(), &self.own) {
            ("Self", Some(own)) => own.clone(),
            _ => first.clone(),
        };
        for access in ACCESS {
            if access
                .paths
                .iter()
                .any(|[one, two]| *one == first && (*two == last))
            {
                self.found.insert(access.name.into());
            }
        }
    }

    fn name(&mut self, name: &str) {
        for access in ACCESS {
            if access.methods.contains(&name) {
                self.found.insert(access.name.into());
            }
        }
    }

    /// An import of a function by its own name hides the type before it.
    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.path(&before.clone());
                before.pop();
            }
            syn::UseTree::Rename(rename) => self.rename(rename),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before);
                }
            }
            syn::UseTree::Glob(_) => {
                let last = before.last().cloned().unwrap_or_default();
                if ACCESS
                    .iter()
                    .flat_map(|access| access.paths)
                    .any(|[one, _]| *one == last)
                {
                    self.found.insert(format!("glob-import-of-{last}"));
                }
            }
        }
    }

    fn rename(&mut self, rename: &UseRename) {
        let name = rename.ident.to_string();
        let hides = rename.rename != "_"
            && ACCESS
                .iter()
                .flat_map(|access| access.paths)
                .any(|words| words.contains(&name.as_str()));
        if hides {
            self.found.insert(format!("renamed-import-of-{name}"));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let mut own = None;
        if let syn::Type::Path(path) = item.self_ty.as_ref() {
            own = path.path.segments.last().map(|s| s.ident.to_string());
        }
        let before = std::mem::replace(&mut self.own, own);
        visit::visit_item_impl(self, item);
        self.own = before;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.import(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.name(&call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        // The arguments of a macro are no syntax tree; most are expressions with commas.
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = mac.parse_body_with(parser) {
            for argument in &arguments {
                // Its words live as long as this call alone.
                let mut inner = Reader {
                    own: self.own.clone(),
                    found: BTreeSet::new(),
                };
                inner.visit_expr(argument);
                self.found.extend(inner.found);
            }
        }
        visit::visit_macro(self, mac);
    }
}

/// `#[cfg(test)]` or `#[test]`: never part of a program.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| path.is_ident("test")))
    })
}

fn files(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `package::folder::file`, as in the source tree.
fn module(package: &str, source: &Path, file: &Path) -> String {
    let inner = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut words = vec![package.to_owned()];
    words.extend(
        inner
            .components()
            .map(|word| word.as_os_str().to_string_lossy().into_owned())
            .filter(|word| !matches!(word.as_str(), "lib" | "main" | "mod")),
    );
    words.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        in_text("p::m", text).unwrap().into_iter().collect()
    }

    #[test]
    fn a_call_is_found_however_it_is_written() {
        for text in [
            "fn f() { custody_ledger::key::load_or_create(a, b); }",
            "use custody_ledger::key; fn f() { key::load_or_create(a, b); }",
            "use custody_ledger::key::load_or_create; fn f() { load_or_create(a, b); }",
            "fn f() { g(key::load_or_create) }",
            "fn f() { assert!(ok(key::load_or_create(a, b)), \"why\"); }",
        ] {
            assert_eq!(found(text), ["key.file p::m"], "{text}");
        }
        assert_eq!(
            found("struct Credential; impl Credential { fn g() { Self::read(x) } }"),
            ["credential.read p::m"]
        );
        assert_eq!(found("fn f() { c.lend(|s| s) }"), ["credential.lend p::m"]);
        assert_eq!(
            found("fn f() { std::env::var(\"A\") }"),
            ["environment p::m"]
        );
    }

    #[test]
    fn a_renamed_or_glob_import_does_not_hide_a_reader() {
        assert_eq!(
            found("use custody_ledger::key::load_or_create as go;"),
            ["renamed-import-of-load_or_create p::m"]
        );
        assert_eq!(
            found("use ed25519_dalek::SigningKey as K;"),
            ["renamed-import-of-SigningKey p::m"]
        );
        assert_eq!(
            found("use custody_ledger::key::*;"),
            ["glob-import-of-key p::m"]
        );
    }

    #[test]
    fn tests_and_other_names_are_no_readers() {
        for text in [
            "#[cfg(test)] mod tests { fn f() { key::load_or_create(a, b) } }",
            "#[test] fn f() { key::load_or_create(a, b) }",
            "fn f() { policy::Credential { a: 1 } }",
            "fn f() { file.read(b) }",
            "// key::load_or_create(a, b)\nconst A: &str = \"key::load_or_create\";",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
