//! The arrows of the architecture: which crate may know which.
//!
//! A crate knows those before it in its own folder, and the folders that its own may know.

use serde_json::Value;

use crate::report::Violation;

/// A folder of `crates/`.
struct Folder {
    name: &'static str,
    /// Its crates from the bottom up, without `hermes-`: each may know those before it.
    crates: &'static str,
    /// Other folders whose crates they may know, and single crates.
    knows: &'static str,
    /// Crates that their tests may know besides.
    tests_know: &'static str,
}

/// The folders from the bottom up. A new crate gets a word here, or `tidy` fails.
const FOLDERS: &[Folder] = &[
    Folder {
        name: "wire",
        crates: "proto recovery ip stack noise certified wireguard",
        knows: "",
        tests_know: "corpus",
    },
    Folder {
        name: "decide",
        crates: "config rules rego convert plan",
        knows: "wire",
        tests_know: "corpus",
    },
    Folder {
        name: "machine",
        crates: "net http upstream acme",
        knows: "wire config",
        tests_know: "",
    },
    Folder {
        name: "node",
        crates: "observe identity packet plug admit exchange listen node",
        knows: "wire decide machine",
        tests_know: "",
    },
    Folder {
        name: "plugs",
        crates: "custody socks relay-client relay functions cache pace translate origins areas",
        knows: "wire decide machine observe identity packet plug",
        tests_know: "node",
    },
    Folder {
        name: "control",
        crates: "api agent control",
        knows: "wire decide machine node",
        tests_know: "corpus",
    },
    Folder {
        name: "app",
        crates: "example-plugs hermes",
        knows: "wire decide machine node plugs control",
        tests_know: "",
    },
    Folder {
        name: "tools",
        crates: "xtask corpus harness lab tests",
        knows: "wire decide machine node plugs control app",
        tests_know: "",
    },
];

/// Folders whose crates stay pure: time and randomness are arguments, bytes come in and go out.
const PURE: &[&str] = &["wire", "decide"];

/// Crates of these folders that are not pure, and why.
const NOT_PURE: &[(&str, &str)] = &[(
    "rego",
    "a policy runs on threads of its own, within bounds of time",
)];

/// Crates that a pure crate may not know, directly or through our own crates.
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "an async run time"),
    ("tokio-util", "an async run time"),
    ("tokio-rustls", "an async run time"),
    ("h2", "an async run time"),
    ("hyper", "an async run time"),
    ("quinn", "an async run time"),
    ("hickory-resolver", "an async run time"),
    ("socket2", "sockets"),
    ("rustix", "system calls"),
    ("quinn-udp", "sockets"),
    ("rand", "a random source"),
    ("fastrand", "a random source"),
    ("getrandom", "a random source"),
];

/// Checks the arrows of `cargo metadata --no-deps`.
pub fn check(metadata: &Value) -> Vec<Violation> {
    let packages = packages(metadata);
    let mut violations: Vec<_> = packages
        .iter()
        .flat_map(|package| check_edges(package, &packages))
        .collect();
    for package in packages.iter().filter(|package| is_pure(package.name)) {
        let mut trail = vec![package.name];
        check_purity(package, package, &packages, &mut trail, &mut violations);
    }

    violations
}

/// One crate of the workspace.
struct Package<'a> {
    name: &'a str,
    manifest: String,
    dependencies: Vec<Dependency<'a>>,
}

struct Dependency<'a> {
    name: &'a str,
    /// Used by the crate itself, not only by its tests or its build script.
    normal: bool,
}

fn packages(metadata: &Value) -> Vec<Package<'_>> {
    let root = text(&metadata["workspace_root"]);
    list(&metadata["packages"])
        .iter()
        .map(|value| package(value, root))
        .collect()
}

fn package<'a>(value: &'a Value, root: &str) -> Package<'a> {
    let manifest = text(&value["manifest_path"])
        .trim_start_matches(root)
        .trim_start_matches('/')
        .to_owned();
    let dependencies = list(&value["dependencies"]).iter();
    let dependencies = dependencies.map(|to| Dependency {
        name: text(&to["name"]),
        normal: to["kind"].is_null(),
    });

    Package {
        name: text(&value["name"]),
        manifest,
        dependencies: dependencies.collect(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A package's name without `hermes-`, as the tables write it.
fn short(name: &str) -> &str {
    name.strip_prefix("hermes-").unwrap_or(name)
}

/// The folder of a crate.
fn folder_of(name: &str) -> Option<&'static Folder> {
    let has = |folder: &&Folder| folder.crates.split(' ').any(|known| known == short(name));
    FOLDERS.iter().find(has)
}

fn is_pure(name: &str) -> bool {
    let is_excepted = NOT_PURE.iter().any(|(other, _)| *other == short(name));
    folder_of(name).is_some_and(|folder| PURE.contains(&folder.name)) && !is_excepted
}

impl Folder {
    /// Whether a crate of this folder may depend on another of ours.
    fn may_know(&self, from: &str, to: &Dependency<'_>) -> bool {
        let name = short(to.name);
        let before = self.crates.split(' ').take_while(|own| *own != short(from));
        let listed = |list: &str| {
            let folder = folder_of(to.name).map(|folder| folder.name);
            list.split(' ')
                .any(|known| known == name || Some(known) == folder)
        };

        before.into_iter().any(|own| own == name)
            || listed(self.knows)
            || !to.normal && listed(self.tests_know)
    }

    /// The crates and folders that a crate of this folder may know, in words.
    fn known(&self, from: &str) -> String {
        let before = self.crates.split(' ').take_while(|own| *own != short(from));
        let known: Vec<_> = self.knows.split_whitespace().chain(before).collect();
        match known.is_empty() {
            true => "none of ours".to_owned(),
            false => known.join(" "),
        }
    }
}

fn check_edges(package: &Package<'_>, all: &[Package<'_>]) -> Vec<Violation> {
    let Some(folder) = folder_of(package.name) else {
        let message = format!(
            "crate {} has no layer; add it to FOLDERS in crates/tools/xtask/src/layers.rs",
            package.name
        );
        return vec![Violation::new(&package.manifest, 0, message)];
    };

    let ours = |name: &str| all.iter().any(|other| other.name == name);
    let upward = package
        .dependencies
        .iter()
        .filter(|to| ours(to.name) && !folder.may_know(package.name, to));
    let edges = upward.map(|to| edge_violation(package, to.name, &folder.known(package.name)));
    edges.chain(misplaced(package, folder)).collect()
}

/// A crate that lies in another folder than the table says.
fn misplaced(package: &Package<'_>, folder: &Folder) -> Option<Violation> {
    let within = package.manifest.strip_prefix("crates/")?;
    let expected = format!("{}/{}/", folder.name, short(package.name));
    let message = format!("{} belongs to crates/{expected}", package.name);
    (!within.starts_with(&expected)).then(|| Violation::new(&package.manifest, 0, message))
}

fn edge_violation(package: &Package<'_>, to: &str, known: &str) -> Violation {
    let message = format!(
        "{} may not depend on {to}: a crate depends only downwards, here on: {known}",
        package.name
    );

    Violation::new(&package.manifest, 0, message)
}

/// Follows our own crates from `pure` and reports dependencies on a run time, a clock or a random source.
fn check_purity<'a>(
    pure: &Package<'_>,
    at: &Package<'a>,
    all: &[Package<'a>],
    trail: &mut Vec<&'a str>,
    violations: &mut Vec<Violation>,
) {
    for to in at.dependencies.iter().filter(|to| to.normal) {
        if let Some((name, what)) = IMPURE.iter().find(|(name, _)| *name == to.name) {
            let way = format!("{} -> {name}", trail.join(" -> "));
            let message = format!(
                "{} is pure but knows {name} ({way}): {what} is the caller's business",
                pure.name
            );
            violations.push(Violation::new(&at.manifest, 0, message));
        } else if let Some(next) = all
            .iter()
            .find(|other| other.name == to.name && !trail.contains(&other.name))
        {
            trail.push(next.name);
            check_purity(pure, next, all, trail, violations);
            trail.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A crate's name and its dependencies with their kinds.
    type Crate<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    fn metadata(packages: &[Crate<'_>]) -> Value {
        let dependency =
            |(name, kind): &(&str, Option<&str>)| json!({ "name": name, "kind": kind });
        let package = |(name, dependencies): &Crate<'_>| {
            let dependencies: Vec<_> = dependencies.iter().map(dependency).collect();
            json!({ "name": name, "manifest_path": format!("/r/{name}/Cargo.toml"), "dependencies": dependencies })
        };
        json!({ "workspace_root": "/r", "packages": packages.iter().map(package).collect::<Vec<_>>() })
    }

    fn messages(packages: &[Crate<'_>]) -> Vec<String> {
        check(&metadata(packages))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn downward_edges_pass() {
        let http: &[_] = &[
            ("hermes-net", None),
            ("hermes-proto", None),
            ("tokio", None),
        ];
        assert!(
            messages(&[
                ("hermes-http", http),
                ("hermes-net", &[]),
                ("hermes-proto", &[])
            ])
            .is_empty()
        );
    }

    #[test]
    fn an_upward_edge_names_both_crates_and_the_rule() {
        let found = messages(&[
            ("hermes-net", &[("hermes-http", Some("dev"))]),
            ("hermes-http", &[]),
        ]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .starts_with("hermes-net/Cargo.toml: hermes-net may not depend on hermes-http: "),
            "{found:?}"
        );
    }

    #[test]
    fn a_crate_without_a_layer_fails() {
        assert!(messages(&[("hermes-misc", &[])])[0].contains("hermes-misc has no layer"));
    }

    #[test]
    fn a_pure_crate_may_not_reach_a_run_time_through_ours() {
        let found = messages(&[
            ("hermes-rules", &[("hermes-config", None)]),
            ("hermes-config", &[("tokio", None)]),
        ]);
        assert!(
            found[0].contains("hermes-rules -> hermes-config -> tokio"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_of_a_pure_crate_may_use_randomness() {
        assert!(messages(&[("hermes-proto", &[("fastrand", Some("dev"))])]).is_empty());
    }

    #[test]
    fn the_tests_of_a_plug_may_start_a_node_but_the_plug_knows_none() {
        let custody = |kind| {
            messages(&[
                ("hermes-custody", &[("hermes-node", kind)]),
                ("hermes-node", &[]),
            ])
        };
        assert!(custody(Some("dev")).is_empty());
        assert!(custody(None)[0].contains("hermes-custody may not depend on hermes-node"));
    }

    #[test]
    fn a_crate_lies_in_its_folder() {
        let mut metadata = metadata(&[("hermes-net", &[])]);
        let mut said = |manifest: &str| {
            metadata["packages"][0]["manifest_path"] = manifest.into();
            check(&metadata)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert!(said("/r/crates/machine/net/Cargo.toml").is_empty());
        assert!(
            said("/r/crates/wire/net/Cargo.toml")[0].contains("belongs to crates/machine/net/")
        );
    }

    #[test]
    fn every_crate_has_one_folder_and_knows_only_those_before() {
        let mut names = Vec::new();
        for folder in FOLDERS {
            for known in folder.knows.split_whitespace() {
                assert!(names.contains(&known), "{known}");
            }

            names.push(folder.name);
            names.extend(folder.crates.split(' ').filter(|own| *own != folder.name));
        }

        for known in FOLDERS
            .iter()
            .flat_map(|folder| folder.tests_know.split_whitespace())
        {
            assert!(names.contains(&known), "{known}");
        }

        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
