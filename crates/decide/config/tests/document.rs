//! Whole documents, from text to types.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::model::{Access, Auth, EndpointAddress, FieldMatch, Hops, Terminate, TlsChoice};
use hermes_config::{Loaded, Problems, load};

fn env(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8443".to_owned()),
        "WORKERS" => Some("2".to_owned()),
        "NUMBER" => Some("42".to_owned()),
        _ => None,
    }
}

fn load_text(text: &str) -> Result<Loaded, Problems> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, text).unwrap();
    load(&file, &env)
}

fn loaded(text: &str) -> Loaded {
    load_text(text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn one_prefix_needs_no_list_and_no_prefix_is_a_list_without_any() {
    let file = |from: &str| {
        format!(
            "
            version: 1
            listeners:
              web:
                http: 127.0.0.1:0
                insecure_trust: {from}
                proxy_protocol_from: {from}
                client_address: {{ field: forwarded, from: {from} }}
              net: {{ tun: {{ name: hermes0, addresses: {from}, routes: {from}, exclude: {from} }} }}
            routes: [{{ terminate: {{ tun: hermes1, pool: 10.7.0.0/24, routes: {from} }} }}]
            egress: {{ allow: {from}, deny: {from} }}
            "
        )
    };
    let one = loaded(&file("10.0.0.0/8")).document;
    let listed = loaded(&file("[10.0.0.0/8]")).document;
    let none = loaded(&file("[]")).document;
    assert_eq!(one, listed);
    assert_eq!(one.egress.allow.len(), 1);
    assert!(none.egress.deny.is_empty());

    let wrong = load_text(&file("10.0.0.7")).unwrap_err().to_string();
    assert_eq!(wrong.matches("write 10.0.0.7/32").count(), 9, "{wrong}");
}

const EVERYTHING: &str = include_str!("documents/everything.yaml");

#[test]
fn a_document_that_says_everything_loads() {
    let document = loaded(EVERYTHING).document;
    assert_eq!(document.workers.map(usize::from), Some(2));
    assert!(
        matches!(document.log.access, Access::File(ref file) if file.0.ends_with("access.json"))
    );
    let web = &document.listeners["web"];
    assert!(
        matches!(web.auth(), Some(Auth::Methods(methods)) if methods.mtls && methods.basic.is_some() && methods.bearer.is_some())
    );
    assert_eq!(
        web.limits.head_time.map(|time| time.0),
        Some(Duration::from_secs(10))
    );
    assert_eq!(
        web.set["forwarded"].to_string(),
        "for={peer.address};by={node}"
    );
    let route = &document.routes[0];
    assert_eq!(route.matches.target.as_ref().unwrap().len(), 3);
    assert!(route.matches.port.as_ref().unwrap()[0].matches(443));
    assert_eq!(route.matches.fields["x-absent"], FieldMatch::Present(false));
    assert!(matches!(route.to, Some(Hops::Split(ref split)) if split["ingress"] == 9));
    assert!(matches!(
        document.routes[1].terminate,
        Some(Terminate::Target(true))
    ));
    let ingress = &document.upstreams["ingress"];
    assert_eq!(
        ingress
            .endpoints
            .iter()
            .map(|endpoint| endpoint.weight())
            .collect::<Vec<_>>(),
        [1, 3, 1]
    );
    assert!(
        matches!(ingress.endpoints[2].address(), EndpointAddress::Unix(path) if path.is_absolute())
    );
    assert!(matches!(ingress.tls, Some(TlsChoice::Details(ref tls)) if tls.ca_file.is_some()));
    assert!(document.peers["sap"].speaks_for[0].matches("bob@example.com"));
}

#[test]
fn the_shortest_document_has_the_defaults() {
    let document = loaded("version: 1\n").document;
    assert_eq!(document.fields.len(), 5);
    assert_eq!(document.log.access, Access::Stdout);
    assert!(document.listeners.is_empty() && document.routes.is_empty());
}

#[test]
fn variables_have_the_type_of_what_they_contain_unless_quoted() {
    let document = loaded(
        "version: 1\nnode: \"${NUMBER}\"\nworkers: ${NUMBER}\nidentity:\n  user: u-${NONE:-x}\n",
    )
    .document;
    assert_eq!(document.node.as_deref(), Some("42"));
    assert_eq!(document.workers.map(usize::from), Some(42));
    assert_eq!(document.identity.unwrap().user, "u-x");
}

#[test]
fn everything_in_a_document_has_a_place() {
    let text = "version: 1\nlisteners:\n  web: { http: \"127.0.0.1:1\" }\n  \"a.b\":\n    tcp: 127.0.0.1:2\nroutes:\n  - to: x\n  - match: { target: [A, B] }\n";
    let places = loaded(text).places;
    let at = |path: &str| {
        places
            .locate(path)
            .map(|place| (place.line, place.column))
            .unwrap()
    };
    assert_eq!(at("version"), (1, 10));
    assert_eq!(at("listeners"), (2, 1));
    assert_eq!(at("listeners.web"), (3, 3));
    assert_eq!(at("listeners.web.http"), (3, 16));
    assert_eq!(at("listeners[\"a.b\"].tcp"), (5, 10));
    assert_eq!(at("routes[1].match.target[1]"), (8, 26));
    assert_eq!(at("routes[1].match.target.nothing"), (8, 14));
    assert_eq!(at("routes[7]"), (6, 1));
    assert_eq!(at("nothing.at.all"), (1, 1));
}

/// Fenced blocks of a Markdown text that are whole documents.
fn examples(markdown: &str) -> Vec<String> {
    let blocks = markdown
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    blocks
        // Files of areas and mappings are other languages: `hermes plan areas` and `hermes translate test` read them.
        .filter(|block| block.contains("version: 1"))
        .filter(|block| !["\nplaces:", "\noperations:"].iter().any(|key| block.contains(key)))
        .map(str::to_owned)
        .collect()
}

/// Files with this ending in the folder and one level below.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let below = entries(folder).into_iter().flat_map(|path| {
        if path.is_dir() {
            entries(&path)
        } else {
            vec![path]
        }
    });
    below
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

#[test]
fn every_example_in_the_documentation_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "md"));
    pages.extend(files(&root.join("docs"), "md"));
    for page in pages {
        for example in examples(&fs::read_to_string(&page).unwrap()) {
            println!("an example of {}", page.display());
            loaded(&example);
        }
    }
    for file in files(&root.join("examples"), "yaml") {
        load(&file, &|_| Some("1".to_owned())).unwrap_or_else(|problems| panic!("{problems}"));
    }
}
