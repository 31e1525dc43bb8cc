//! The arrows of the architecture: which crate may know which.
//!
//! `hermes -> proxy -> {identity, packet} -> observe -> upstream -> http -> net -> proto`, and `config`, plain data, is known to all
//! but http, net and proto.

use serde_json::Value;

use crate::report::Violation;

/// Each crate and the crates of this workspace that it may know, tests included; from the bottom up, names without
/// `hermes-`. A new crate gets a line here, or `tidy` fails.
const LAYERS: &[(&str, &str)] = &[
    ("proto", ""),
    ("config", ""),
    ("ip", "proto"),
    ("rules", "proto config ip"),
    ("rego", ""),
    ("convert", "config"),
    ("stack", "proto"),
    ("noise", ""),
    ("wireguard", "noise"),
    ("net", "proto"),
    ("acme", "proto config net"),
    ("http", "proto net"),
    ("upstream", "proto config net http"),
    ("observe", "proto config rules net http upstream"),
    ("identity", "proto config rules net http"),
    (
        "packet",
        "proto ip stack wireguard rules net http upstream observe",
    ),
    (
        "proxy",
        "proto config ip stack wireguard rules rego net acme http upstream observe identity packet",
    ),
    ("custody", "proto config noise net http observe proxy"),
    (
        "hermes",
        "proto config convert ip noise rules rego net http upstream observe identity packet proxy custody",
    ),
    ("harness", ""),
    ("lab", "proto config net noise wireguard harness"),
    (
        "tests",
        "proto config ip stack wireguard rules rego net http upstream observe identity packet proxy custody hermes harness lab",
    ),
    (
        "example-plugs",
        "proto config ip rules rego net http upstream observe identity packet proxy",
    ),
    ("xtask", ""),
];

/// Crates that stay pure: time and randomness are arguments, bytes come in and go out.
const PURE: &[&str] = &["proto", "convert", "ip", "rules", "stack"];

/// What a pure crate may not know, itself or through our own crates.
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
    for package in packages
        .iter()
        .filter(|package| PURE.contains(&short(package.name)))
    {
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

fn check_edges(package: &Package<'_>, all: &[Package<'_>]) -> Vec<Violation> {
    let Some((_, may_know)) = LAYERS.iter().find(|(name, _)| *name == short(package.name)) else {
        let message = format!(
            "crate {} has no layer; add it to LAYERS in crates/tools/xtask/src/layers.rs",
            package.name
        );
        return vec![Violation::new(&package.manifest, 0, message)];
    };

    let ours = |name: &str| all.iter().any(|other| other.name == name);
    let allowed = |name: &str| may_know.split(' ').any(|known| known == short(name));
    let forbidden = package
        .dependencies
        .iter()
        .filter(|to| ours(to.name) && !allowed(to.name));

    forbidden
        .map(|to| edge_violation(package, to.name, may_know))
        .collect()
}

fn edge_violation(package: &Package<'_>, to: &str, may_know: &str) -> Violation {
    let known = if may_know.is_empty() {
        "none of ours"
    } else {
        may_know
    };

    let message = format!(
        "{} may not depend on {to}: a crate depends only downwards, here on: {known}",
        package.name
    );

    Violation::new(&package.manifest, 0, message)
}

/// Follows our own crates from `pure` and reports what brings in a run time, a clock or a random source.
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
    fn every_crate_has_one_layer_and_knows_only_layers() {
        let mut names: Vec<_> = LAYERS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LAYERS.len());
        for known in LAYERS
            .iter()
            .flat_map(|(_, may_know)| may_know.split_whitespace())
        {
            assert!(names.contains(&known), "{known}");
        }
    }
}
