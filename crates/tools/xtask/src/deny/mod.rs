//! Rules for the dependency tree: licences, banned and duplicate crates, and the sources of crates.
//!
//! It does not check for known vulnerabilities: `./test advisories` does.

mod licences;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use rules::{BANNED, INDEX, TARGETS, TWICE};
use serde_json::Value;

use crate::tree::{Tree, run};

/// One version of one crate that is built for one of [`TARGETS`], tests and build scripts included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    /// An SPDX expression; empty where its manifest has none.
    licence: String,
}

/// Checks the crates that cargo would build; says how many there are.
///
/// # Errors
/// Every broken rule, each on a line of its own, or why cargo cannot be asked.
pub fn check() -> Result<String, String> {
    let tree = Tree::read()?;
    let crates = crates()?;
    let lock = tree
        .files
        .iter()
        .find(|file| file.path == "Cargo.lock")
        .ok_or("there is no Cargo.lock")?;

    let mut broken = wildcards(&tree.metadata);
    broken.extend(sources(&lock.text));
    broken.extend(crates.iter().filter_map(licence));
    broken.extend(crates.iter().filter_map(ban));
    broken.extend(duplicates(&crates));

    if broken.is_empty() {
        Ok(format!("{} crates, nothing to object to", crates.len()))
    } else {
        Err(broken.join("\n"))
    }
}

/// The crates that cargo builds for any target, each once.
fn crates() -> Result<BTreeSet<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut crates = BTreeSet::new();
    for target in TARGETS {
        let mut command = Command::new(&cargo);
        command.args([
            "tree",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-features",
            "--target",
            target,
        ]);

        // Each crate is written out once: without that, the whole of what is below it comes again under each that needs it.
        command.args(["--prefix", "none", "--format", "{p}\t{l}"]);
        let text =
            String::from_utf8(run(&mut command)?).map_err(|_| "cargo tree writes no UTF-8")?;
        crates.extend(text.lines().filter_map(parse));
    }

    Ok(crates)
}

/// A line of `cargo tree`: `name v1.2.3 (where from)`, a tab, the licence, and ` (*)` where the crate was written out before.
fn parse(line: &str) -> Option<Crate> {
    let (package, licence) = line.split_once('\t')?;
    let (name, rest) = package.split_once(" v")?;
    let version = rest.split(' ').next().unwrap_or(rest);

    Some(Crate {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.trim_end_matches(" (*)").trim().to_owned(),
    })
}

/// Crates that have no licence which we take.
fn licence(of: &Crate) -> Option<String> {
    let Crate {
        name,
        version,
        licence,
    } = of;
    match licences::accepted(licence) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "{name} {version}: its licence is `{licence}`, which is not among those that we take; use another crate, \
             or add the licence to crates/tools/xtask/src/deny/licences.rs"
        )),
        Err(reason) => Some(format!(
            "{name} {version}: its licence `{licence}` cannot be read: {reason}"
        )),
    }
}

/// Crates that we do not want at all.
fn ban(of: &Crate) -> Option<String> {
    let (name, reason) = BANNED.iter().find(|(name, _)| *name == of.name)?;
    Some(format!(
        "{name} {}: is banned: {reason}; `cargo tree --invert {name}` says who brings it",
        of.version
    ))
}

/// Crates in two versions that the rules do not name, and rules that are no longer needed.
fn duplicates(crates: &BTreeSet<Crate>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for each in crates {
        versions.entry(&each.name).or_default().push(&each.version);
    }

    let mut broken = Vec::new();
    for (name, versions) in &versions {
        let counted = versions
            .iter()
            .filter(|version| !TWICE.iter().any(|known| known.is(name, version)))
            .count();
        if counted > 1 {
            broken.push(format!(
                "{name}: comes in the versions {}; update what needs the older one, or name it in TWICE in \
                 crates/tools/xtask/src/deny/rules.rs with the reason",
                versions.join(" and ")
            ));
        }
    }

    for known in TWICE {
        let of = versions
            .get(known.name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if of.len() < 2 || !of.iter().any(|version| known.is(known.name, version)) {
            broken.push(format!(
                "{} {}: is in TWICE without need; remove the line",
                known.name, known.version
            ));
        }
    }

    broken
}

/// Crates that come from anywhere but the default registry, by `Cargo.lock`.
fn sources(lock: &str) -> Vec<String> {
    let sources: BTreeSet<&str> = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .collect();
    let strange = sources
        .into_iter()
        .filter(|source| source.trim_matches('"') != INDEX);
    strange
        .map(|source| {
            format!("Cargo.lock: crates come from {source}; only the default registry is taken")
        })
        .collect()
}

/// Dependencies that take any version.
fn wildcards(metadata: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut broken = Vec::new();
    for package in list(&metadata["packages"]) {
        for to in list(&package["dependencies"]) {
            if to["req"] == "*" && to["path"].is_null() {
                broken.push(format!(
                    "{}: takes any version of {}; name one",
                    package["name"], to["name"]
                ));
            }
        }
    }

    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str) -> Crate {
        Crate {
            name: name.into(),
            version: version.into(),
            licence: "MIT".into(),
        }
    }

    /// Every crate of TWICE in two versions, which is as it should be.
    fn known() -> BTreeSet<Crate> {
        TWICE
            .iter()
            .flat_map(|known| {
                [
                    of(known.name, &format!("{}.7", known.version)),
                    of(known.name, "99.0.0"),
                ]
            })
            .collect()
    }

    #[test]
    fn a_line_of_the_tree_has_a_name_a_version_and_a_licence() {
        let parsed = parse("serde v1.0.2 (proc-macro)\tMIT OR Apache-2.0").unwrap();
        assert_eq!(
            (parsed.name.as_str(), parsed.version.as_str()),
            ("serde", "1.0.2")
        );
        assert_eq!(parsed.licence, "MIT OR Apache-2.0");
        let again = parse("serde v1.0.2 (proc-macro)\tMIT OR Apache-2.0 (*)");
        assert_eq!(again, Some(parsed));
        assert_eq!(parse("odd v1.0.0\t").unwrap().licence, "");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn two_versions_are_refused_unless_they_are_known() {
        assert_eq!(duplicates(&known()), Vec::<String>::new());
        let mut crates = known();
        crates.extend([of("bytes", "1.0.0"), of("bytes", "2.0.0")]);
        let found = duplicates(&crates);
        assert!(
            found.len() == 1
                && found[0].starts_with("bytes: comes in the versions 1.0.0 and 2.0.0"),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_known_without_need_is_refused() {
        let first = TWICE[0].name;
        let mut crates = known();
        crates.retain(|each| each.name != first || each.version != "99.0.0");
        let found = duplicates(&crates);
        assert!(
            found.len() == 1 && found[0].contains("without need"),
            "{found:?}"
        );
        crates.retain(|each| each.name != first);
        assert_eq!(duplicates(&crates).len(), 1);
    }

    #[test]
    fn banned_crates_say_why() {
        let found = ban(&of("openssl", "0.10.0")).unwrap();
        assert!(
            found.contains("one TLS stack everywhere: rustls"),
            "{found}"
        );
        assert_eq!(ban(&of("openssl-probe", "0.2.0")), None);
    }

    #[test]
    fn a_crate_without_a_licence_is_refused() {
        assert!(
            licence(&Crate {
                licence: String::new(),
                ..of("odd", "1.0.0")
            })
            .is_some()
        );
        assert!(
            licence(&Crate {
                licence: "GPL-3.0".into(),
                ..of("odd", "1.0.0")
            })
            .is_some()
        );
        assert_eq!(licence(&of("odd", "1.0.0")), None);
    }

    #[test]
    fn only_the_default_registry_is_taken() {
        let lock = |source: &str| format!("[[package]]\nname = \"x\"\nsource = \"{source}\"\n");
        assert_eq!(sources(&lock(INDEX)), Vec::<String>::new());
        assert_eq!(sources(&lock("git+https://example.org/x")).len(), 1);
    }

    #[test]
    fn any_version_is_taken_by_path_only() {
        let metadata = |path: Value| {
            serde_json::json!({ "packages": [
                { "name": "a", "dependencies": [{ "name": "b", "req": "*", "path": path }] },
            ]})
        };
        assert_eq!(wildcards(&metadata(Value::Null)).len(), 1);
        assert_eq!(wildcards(&metadata("/b".into())), Vec::<String>::new());
    }
}
