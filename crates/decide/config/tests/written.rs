//! Documents that are written are read as the same documents, and show no secrets.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::{Kind, Loaded, Places, diff, parse, to_json, write, write_whole};
use serde_json::Value as Json;

fn env(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8443".to_owned()),
        "NUMBER" => Some("42".to_owned()),
        "WORKERS" => Some("2".to_owned()),
        "TOKEN" => Some("hunter2: #x".to_owned()),
        _ => Some("/from/env".to_owned()),
    }
}

fn read(text: &str) -> Loaded {
    parse(Path::new("node.yaml"), text, &env)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == ending));
    files.sort();
    files
}

/// The YAML of a page of the documentation, made whole where it is a part.
fn blocks(page: &str) -> Vec<String> {
    let fenced = page.split("```yaml\n").skip(1);
    let texts = fenced.filter_map(|rest| rest.split_once("```"));
    texts
        .map(|(text, _)| match text.contains("version:") {
            true => text.to_owned(),
            false => format!("version: 1\n{text}"),
        })
        .collect()
}

/// Every document of the repository that loads by itself.
fn documents() -> Vec<(String, Loaded)> {
    let mut texts = Vec::new();
    for folder in ["../../../examples", "tests/documents", "corpus"] {
        for file in files(folder, "yaml") {
            if let Ok(text) = fs::read_to_string(&file) {
                texts.push((file.display().to_string(), text));
            }
        }
    }
    let pages = files("../../../docs", "md")
        .into_iter()
        .chain([PathBuf::from("../../../README.md")]);
    for page in pages {
        for (index, block) in blocks(&fs::read_to_string(&page).unwrap())
            .into_iter()
            .enumerate()
        {
            texts.push((format!("{}, block {index}", page.display()), block));
        }
    }
    let read = |(name, text): (String, String)| {
        let loaded = parse(Path::new("node.yaml"), &text, &env).ok()?;
        Some((name, loaded))
    };
    texts.into_iter().filter_map(read).collect()
}

fn is_read_as_it_was_written(name: &str, loaded: &Loaded) {
    let text = write_whole(&loaded.document, &Places::nowhere());
    assert_eq!(
        read(&text).document,
        loaded.document,
        "{name}, written as\n{text}"
    );
    let again = write_whole(&read(&text).document, &Places::nowhere());
    assert_eq!(again, text, "{name}");
    let shown = write(&loaded.document, &loaded.places);
    if !shown.contains("${a secret, not shown}") {
        assert_eq!(
            read(&shown).document,
            loaded.document,
            "{name}, written as\n{shown}"
        );
    }
}

#[test]
fn the_documents_of_the_repository_are_read_as_they_were_written() {
    let documents = documents();
    assert!(documents.len() > 20, "only {} load", documents.len());
    for (name, loaded) in documents {
        is_read_as_it_was_written(&name, &loaded);
    }
}

/// A small generator (xorshift), so that every run sees the same documents.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Removes, doubles or takes over a part of the document, anywhere.
fn mutate(value: &mut Json, other: &Json, dice: &mut Dice) {
    match value {
        Json::Object(entries) if !entries.is_empty() => {
            let at = dice.below(entries.len());
            let key = entries.keys().nth(at).unwrap().clone();
            let theirs = other.get(&key);
            match dice.below(4) {
                0 => drop(entries.shift_remove(&key)),
                1 if theirs.is_some() => drop(entries.insert(key, theirs.unwrap().clone())),
                _ => mutate(&mut entries[&key], theirs.unwrap_or(&Json::Null), dice),
            }
        }
        Json::Array(items) if !items.is_empty() => {
            let at = dice.below(items.len());
            match dice.below(4) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => mutate(&mut items[at], other.get(0).unwrap_or(&Json::Null), dice),
            }
        }
        Json::Bool(switch) => *switch = !*switch,
        Json::String(text) => text.push_str(["x", " ", ": #", "\n", "${", "1"][dice.below(6)]),
        Json::Number(_) => *value = Json::from(dice.below(300)),
        _ => {}
    }
}

#[test]
fn mutated_documents_are_read_as_they_were_written() {
    const ROUNDS: usize = 1000;
    let documents: Vec<Json> = documents()
        .iter()
        .map(|(_, loaded)| to_json(&loaded.document, &Places::nowhere()))
        .collect();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut read = 0;
    for _ in 0..ROUNDS {
        let mut json = documents[dice.below(documents.len())].clone();
        for _ in 0..=dice.below(5) {
            mutate(
                &mut json,
                &documents[dice.below(documents.len())],
                &mut dice,
            );
        }
        if let Ok(loaded) = parse(Path::new("node.yaml"), &json.to_string(), &env) {
            is_read_as_it_was_written(&json.to_string(), &loaded);
            read += 1;
        }
    }
    assert!(read > ROUNDS / 10, "only {read} load");
}

#[test]
fn a_document_reads_like_one_that_someone_wrote() {
    let text = "\
version: 1
node: edge
workers: 2

defaults:
  tls: { ca_file: /ca.pem, cert_file: /edge.pem, key_file: /edge.key }
  limits:
    listeners: { connections: 500 }

listeners:
  web: { http: 127.0.0.1:8080, auth: none }
  overlay:
    http: \"[::1]:8443\"
    tls: true
    limits: { streams: 9 }

routes:
  - name: video
    match: { target: [video, \"*.example.org\"], port: [80, 8000-8999] }
    set: { service: video, forwarded: \"for={peer.address}\" }
    to: [near, far]
  - respond:
      status: 404
      body: |
        Nothing is here.
          Really.

upstreams:
  near: { endpoints: [127.0.0.1:80] }
  far:
    endpoints: [{ address: far.example:443, weight: 3 }, unix:/run/far.sock]
    tls: { server_name: far.example, insecure_skip_verify: true }
    timeouts: { connect: 2s, idle: 1m30s }
";
    let loaded = read(text);
    assert_eq!(write(&loaded.document, &loaded.places), text);
}

const SECRETS: &str = "\
version: 1
routes:
  - match: { fields: { x-api-key: hunter1, cookie: \"~session=\" } }
    set: { authorization: \"Bearer hunter0\", x-region: \"${TOKEN}\", x-token: \"{user}\" }
    respond: { status: 200, fields: { set-cookie: \"a=hunter3\" } }
";

#[test]
fn secrets_are_not_shown_and_what_stands_for_them_does_not_load() {
    let loaded = read(SECRETS);
    let shown = write(&loaded.document, &loaded.places);
    assert!(!shown.contains("hunter"), "{shown}");
    assert!(shown.contains("x-region: \"${TOKEN}\""), "{shown}");
    assert!(shown.contains("cookie: \"~session=\""), "{shown}");
    assert!(shown.contains("x-token: \"{user}\""), "{shown}");
    let problems = parse(Path::new("shown.yaml"), &shown, &env).unwrap_err();
    assert_eq!(problems.0.len(), 3, "{problems}");
    assert!(
        problems
            .to_string()
            .contains("a secret, which is not shown"),
        "{problems}"
    );

    let json = to_json(&loaded.document, &loaded.places).to_string();
    assert!(!json.contains("hunter"), "{json}");

    let whole = write_whole(&loaded.document, &loaded.places);
    assert!(
        whole.contains("hunter0") && !whole.contains("hunter2"),
        "{whole}"
    );
    assert_eq!(read(&whole).document, loaded.document);
}

fn changes(old: &str, new: &str) -> Vec<String> {
    let old = read(&format!("version: 1\n{old}"));
    let new = read(&format!("version: 1\n{new}"));
    diff(&old, &new).iter().map(ToString::to_string).collect()
}

#[test]
fn an_inserted_route_is_one_insertion() {
    let route = |name: &str| format!("  - {{ match: {{ target: {name} }}, to: b }}\n");
    let all = |names: &[&str]| {
        format!(
            "routes:\n{}",
            names.iter().map(|name| route(name)).collect::<String>()
        )
    };
    let old = all(&["a", "b", "c"]);
    assert_eq!(
        changes(&old, &all(&["a", "x", "b", "c"])),
        ["+ routes[1]: { match: { target: x }, to: b }"]
    );
    assert_eq!(
        changes(&old, &all(&["b", "c"])),
        ["- routes[0]: { match: { target: a }, to: b }"]
    );
    assert_eq!(
        changes(&old, &all(&["c", "a", "b"])),
        ["> routes[2] -> routes[0]: moved"]
    );
    assert_eq!(changes(&old, &old), [""; 0]);
}

#[test]
fn changes_far_apart_in_a_long_list_are_as_few_as_in_a_short_one() {
    let routes = |skipped: usize, other: usize| {
        let route = |index: usize| {
            let to = if index == other { "b" } else { "a" };
            format!("  - {{ match: {{ target: h{index} }}, to: {to} }}\n")
        };
        let all = (0..2000).filter(|index| *index != skipped).map(route);
        format!("routes:\n{}", all.collect::<String>())
    };
    assert_eq!(
        changes(&routes(9999, 9999), &routes(1500, 20)),
        [
            "~ routes[20].to: a -> b",
            "- routes[1500]: { match: { target: h1500 }, to: a }"
        ]
    );
}

#[test]
fn a_change_is_named_by_the_path_of_its_key() {
    let old =
        "routes: [{ match: { target: a }, to: a }, { match: { target: b }, to: b }]\nworkers: 2\n";
    let new = "routes: [{ match: { target: a }, to: c }, { match: { target: b }, to: b }]\nlog: { level: debug }\n";
    assert_eq!(
        changes(old, new),
        [
            "+ log: { level: debug }",
            "~ routes[0].to: a -> c",
            "- workers: 2"
        ]
    );
    let of = |endpoints: &str| format!("upstreams: {{ \"a.b\": {{ endpoints: [{endpoints}] }} }}");
    assert_eq!(
        changes(&of("h:1, h:2"), &of("h:1, h:3, h:2")),
        ["+ upstreams[\"a.b\"].endpoints[1]: h:3"]
    );
}

#[test]
fn what_is_written_otherwise_and_means_the_same_is_no_change() {
    let old = "listeners: { a: { http: 127.0.0.1:1, limits: { head_time: 60s } } }\nwatch: false";
    let new = "listeners:\n  a: { http: \"127.0.0.1:1\", limits: { head_time: 1m } }\n";
    assert_eq!(changes(old, new), [""; 0]);
}

#[test]
fn a_changed_secret_is_a_change_that_does_not_show_it() {
    let old = read(SECRETS);
    let new = read(&SECRETS.replace("hunter0", "hunter9"));
    let changes = diff(&old, &new);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].kind, Kind::Changed);
    assert_eq!(changes[0].path, "routes[0].set.authorization");
    assert!(!format!("{changes:?}").contains("hunter"), "{changes:?}");
}
