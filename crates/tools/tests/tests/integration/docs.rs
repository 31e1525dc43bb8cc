//! The documentation against the program: every key of the schema has a row that says its default, and what the README
//! lets a newcomer type does what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_tests::head::unnamed;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Echo, Node, curl, free, program};
use serde_json::Value;

/// Pages on which a key may be, besides those of the configuration.
const PAGES: [&str; 5] = [
    "configuration.md",
    "identity.md",
    "capture.md",
    "signed-urls.md",
    "transparent.md",
];

/// The pages of the configuration, by subject.
fn subjects() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/configuration");
    let pages = std::fs::read_dir(folder).unwrap();
    pages.map(|page| page.unwrap().path()).collect()
}

/// Objects whose keys have no default, because each is a condition, a choice or a change that is absent where it is not given.
const WITHOUT_DEFAULTS: [&str; 2] = ["Match", "Hash"];

/// An object of the schema.
struct Object {
    name: String,
    /// Keys, and whether they must be given.
    keys: BTreeMap<String, bool>,
}

/// Every object that has keys.
fn objects(schema: &Value) -> Vec<Object> {
    let parts = schema["$defs"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, part)| (name.as_str(), part));
    let all = [("the file", schema)].into_iter().chain(parts);
    all.filter_map(|(name, part)| {
        let mut keys = BTreeMap::new();
        gather(part, &mut keys);
        (!keys.is_empty()).then(|| Object {
            name: name.to_owned(),
            keys,
        })
    })
    .collect()
}

fn gather(part: &Value, keys: &mut BTreeMap<String, bool>) {
    let required = |key: &str| {
        part["required"]
            .as_array()
            .is_some_and(|required| required.iter().any(|one| one == key))
    };
    for key in part["properties"]
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys())
    {
        keys.insert(key.clone(), required(key));
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        part[list]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|part| gather(part, keys));
    }
}

/// What stands between two headings.
#[derive(Default)]
struct Section {
    /// Words in backticks, and headings of sections below.
    named: BTreeSet<String>,
    /// Keys with a row that says a default.
    defaults: BTreeSet<String>,
}

fn sections(page: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let (mut column, mut code) = (None, false);
    for line in page.lines() {
        code ^= line.starts_with("```");
        if code {
            continue;
        }
        if line.starts_with('#') {
            sections.push(Section::default());
        }
        let section = sections.last_mut().unwrap();
        section
            .named
            .extend(line.split('`').skip(1).step_by(2).flat_map(words));
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let column =
            *column.get_or_insert_with(|| cells.iter().position(|cell| *cell == "Default"));
        if column.is_some_and(|column| cells.get(column).is_some_and(|cell| !cell.is_empty())) {
            section
                .defaults
                .extend(cells[0].split('`').skip(1).step_by(2).flat_map(words));
        }
    }
    sections
}

/// `cache.for` names `cache` and `for`.
fn words(code: &str) -> impl Iterator<Item = String> + '_ {
    code.split(|letter: char| !(letter.is_alphanumeric() || "_$".contains(letter)))
        .map(str::to_owned)
}

/// Keys of a part of the schema whose value may be a file or a text.
fn take_texts(part: &Value, keys: &mut BTreeSet<String>) {
    for (key, value) in part["properties"].as_object().into_iter().flatten() {
        if value.to_string().contains("#/$defs/DataSource\"") {
            keys.insert(key.clone());
        }
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        let parts = part[list].as_array().into_iter().flatten();
        parts.for_each(|part| take_texts(part, keys));
    }
}

#[test]
fn every_key_that_takes_a_text_in_place_of_a_file_is_in_the_table() {
    let schema = program::run(&["schema"]).stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut keys = BTreeSet::new();
    for part in schema["$defs"].as_object().unwrap().values() {
        take_texts(part, &mut keys);
    }
    assert!(keys.len() > 10, "{keys:?}");

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("These keys take both:").unwrap();
    let (table, _) = table.split_once("PEM needs").unwrap();
    let named: BTreeSet<_> = table
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(words)
        .collect();
    let missing: Vec<_> = keys.difference(&named).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_key_of_the_schema_is_on_a_page_with_its_default() {
    let schema: Value = serde_json::from_str(&program::run(&["schema"]).stdout).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let sections: Vec<Section> = PAGES
        .iter()
        .map(|page| folder.join(page))
        .chain(subjects())
        .flat_map(|page| sections(&std::fs::read_to_string(page).unwrap()))
        .collect();
    let mut missing = Vec::new();
    for Object { name, keys } in objects(&schema) {
        let lacks = |section: &Section| -> Vec<String> {
            let told = |key: &str, required: bool| {
                let names = if required || WITHOUT_DEFAULTS.contains(&name.as_str()) {
                    &section.named
                } else {
                    &section.defaults
                };
                names.contains(key)
            };
            keys.iter()
                .filter(|(key, required)| !told(key, **required))
                .map(|(key, _)| key.clone())
                .collect()
        };
        let best = sections.iter().map(lacks).min_by_key(Vec::len).unwrap();
        if !best.is_empty() {
            missing.push(format!("{name}: {best:?}"));
        }
    }
    assert!(
        missing.is_empty(),
        "keys without a row that says their default:\n{}",
        missing.join("\n")
    );
}

/// The blocks of a page in a language, in their order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let opening = format!("```{language}\n");
    text.split(opening.as_str())
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_two_nodes_of_the_readme_carry_what_it_says() {
    let echo = Echo::start();
    let files = blocks("README.md", "yaml");
    let [dp, sap] = &files[..2] else {
        unreachable!()
    };
    let hop = free::tcp();
    let sap = sap
        .replace("127.0.0.1:8443", &hop.to_string())
        .replace("127.0.0.1:8000", &echo.http.to_string());
    let sap = sap
        .replace("127.0.0.1:5433", &echo.tcp.to_string())
        .replace("127.0.0.1:5005", &echo.udp.to_string());
    let dp = dp.replace("127.0.0.1:8443", &hop.to_string());
    let dp = ["8080", "5432", "5004"].iter().fold(dp, |dp, port| {
        dp.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0")
    });
    let (sap, dp) = (Node::start("sap", &sap), Node::start("dp", &dp));

    let shown = curl(&["-x", &dp.url("web"), "-H", "user: mallory", "http://VIDEO/"]).text();
    for line in [
        "GET / HTTP/1.1",
        "host: VIDEO",
        "via: 1.1 dp",
        "via: 2 sap",
        "user: alice",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}:\n{shown}");
    }
    assert!(!shown.contains("mallory"), "{shown}");
    let refused = curl(&["-x", &dp.url("web"), "http://NOWHERE/"]);
    let reason = "sap; error=destination_not_found; details=\"no route for NOWHERE:80 from listener overlay\"";
    assert_eq!(
        (
            refused.status,
            unnamed(&refused.field("proxy-status").unwrap())
        ),
        (404, reason)
    );

    let mut client = Raw::connect(dp.address("db"));
    client.send("hello\n");
    client.finish();
    assert_eq!(client.rest(), (b"hello\n".to_vec(), End::Closed));
    let client = Client::connect(dp.address("voice"));
    client.send("hello\n");
    assert_eq!(client.receive(), b"hello\n");

    // A route that ends at an address has an upstream of that name, wherever one looks.
    let address = echo.http.to_string();
    assert_eq!(
        sap.record(|record| record["kind"] == "http" && record["status"] == 200)["upstream"],
        *address
    );
    let status = sap.status();
    assert!(
        status["upstreams"]
            .as_array()
            .unwrap()
            .iter()
            .any(|upstream| upstream["name"] == *address),
        "{status:#}"
    );
}

/// What a page says that `curl` prints, as its arguments and its output.
fn curled(page: &str) -> Vec<(Vec<String>, String)> {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    let console = blocks(page, "console").concat();
    for line in console.lines() {
        if let Some(command) = line.strip_prefix("$ curl ") {
            let quoted = command.split('\'').enumerate();
            let words = quoted.flat_map(|(number, part)| match number % 2 {
                0 => part.split_whitespace().collect::<Vec<_>>(),
                _ => vec![part],
            });
            lines.push((words.map(str::to_owned).collect(), String::new()));
        } else if let Some((_, output)) = lines.last_mut().filter(|_| !line.starts_with('$')) {
            output.push_str(line);
            output.push('\n');
        }
    }

    lines
}

#[test]
fn the_policy_of_its_page_decides_what_the_page_says() {
    let yaml = blocks("docs/policy.md", "yaml").remove(0);
    let ports = [("8081", "alice"), ("8082", "bob"), ("8083", "guest")];
    let free = ports.iter().fold(yaml, |yaml, (port, _)| {
        yaml.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0")
    });
    let node = Node::start("gate", &free);

    let cases = curled("docs/policy.md");
    assert_eq!(cases.len(), 5);
    for (arguments, output) in cases {
        let arguments: Vec<String> = ports.iter().fold(arguments, |arguments, (port, listener)| {
            let written = format!("http://127.0.0.1:{port}");
            let replaced = arguments
                .into_iter()
                .map(|argument| argument.replace(&written, &node.url(listener)));
            replaced.collect()
        });
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(curl(&arguments).text(), output, "{arguments:?}");
    }
}

#[test]
fn the_tests_of_the_policies_of_the_page_pass() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = blocks("docs/policy.md", "yaml");
    let rego = blocks("docs/policy.md", "rego");
    for (name, text) in [
        ("gate.yaml", &yaml[0]),
        ("gate_test.yaml", &yaml[2]),
        ("policy.rego", &rego[0]),
        ("policy_test.rego", &rego[1]),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }

    let cases = [
        (&["gate_test.yaml"][..], "3 passed, 0 failed\n"),
        (&["policy.rego", "policy_test.rego"], "2 passed, 0 failed\n"),
    ];
    for (files, end) in cases {
        let output = Command::new(program::path())
            .args(["policy", "test"])
            .args(files)
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.ends_with(end), "{said}");
    }
}

#[test]
fn echo_shows_requests_as_json_over_both_versions() {
    let echo = Echo::start();
    let url = format!("http://{}/a?b=c", echo.http);
    for (option, version) in [
        ("--http1.1", "HTTP/1.1"),
        ("--http2-prior-knowledge", "HTTP/2.0"),
    ] {
        let shown = curl(&[
            option,
            "-d",
            "hello",
            "-H",
            "accept: application/json",
            &url,
        ])
        .json();
        assert_eq!(
            (&shown["method"], &shown["version"]),
            (&"POST".into(), &version.into()),
            "{shown:#}"
        );
        assert!(
            shown["target"].as_str().unwrap().ends_with("/a?b=c"),
            "{shown:#}"
        );
        assert_eq!(
            (&shown["content_bytes"], &shown["fields"]["content-length"]),
            (&5.into(), &"5".into())
        );
    }
    let text = curl(&["-X", "PUT", "-d", "hello", &url]).text();
    assert!(
        text.starts_with("PUT /a?b=c HTTP/1.1\n") && text.ends_with("\n\n(5 bytes of content)\n"),
        "{text}"
    );
}

/// Pages whose commands a reader types, besides those of the configuration.
const FOLLOWED: [&str; 9] = [
    "README.md",
    "docs/configuration.md",
    "docs/errors.md",
    "docs/identity.md",
    "docs/migration.md",
    "docs/operating.md",
    "docs/overlay.md",
    "docs/policy.md",
    "docs/performance.md",
];

/// The calls of `hermes` that a page lets one type, without comments: the words after it.
fn calls(page: &str) -> Vec<Vec<String>> {
    let shell = [blocks(page, "sh"), blocks(page, "console")].concat();
    let lines = shell.iter().flat_map(|block| block.lines());
    let typed = lines.filter_map(|line| {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        line.strip_prefix("hermes ")
    });
    typed
        .map(|words| {
            let call = words.split(" #").next().unwrap_or_default();
            let words = call.split_whitespace().take_while(|word| *word != "--");
            words.map(str::to_owned).collect()
        })
        .collect()
}

#[test]
fn every_command_of_the_pages_has_the_options_that_they_say() {
    let mut tried = 0;
    let subjects: Vec<String> = subjects()
        .iter()
        .map(|page| page.display().to_string())
        .collect();
    let pages = FOLLOWED
        .into_iter()
        .chain(subjects.iter().map(String::as_str));
    for page in pages {
        for call in calls(page) {
            let mut path: Vec<&str> = vec![&call[0]];
            // `policy test` and `token create` are commands of their own.
            if ["policy", "token"].contains(&call[0].as_str()) {
                path.push(&call[1]);
            }
            path.push("--help");
            let help = program::run(&path);
            assert_eq!(help.code, 0, "{page}: hermes {}", call.join(" "));

            let mut options = call.iter().filter(|word| word.starts_with("--"));
            let unknown = options.find(|option| {
                let name = option.split('=').next().unwrap_or_default();
                !help.stdout.contains(name)
            });
            assert_eq!(unknown, None, "{page}: hermes {}", call.join(" "));
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} calls");
}

/// The node of the README, at ports that are free, as operating.md is followed with it.
fn followed_node() -> (Node, Node, Echo) {
    let echo = Echo::start();
    let files = blocks("README.md", "yaml");
    let hop = free::tcp().to_string();
    let sap = files[1]
        .replace("127.0.0.1:8443", &hop)
        .replace("127.0.0.1:8000", &echo.http.to_string());
    let dp = files[0].replace("127.0.0.1:8443", &hop);
    let dp = ["8080", "5432", "5004"].iter().fold(dp, |dp, port| {
        dp.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0")
    });
    (Node::start("sap", &sap), Node::start("dp", &dp), echo)
}

/// What a call of `hermes` says about a node, whose name stands for its socket on the page.
fn says(node: &Node, call: &[&str]) -> String {
    let socket = node.folder().join("admin.sock").display().to_string();
    let said = program::run(&[call, &["--admin", &socket]].concat());
    assert_eq!(said.code, 0, "{call:?}: {}{}", said.stdout, said.stderr);
    said.stdout
}

#[test]
fn a_node_is_operated_as_the_page_says() {
    let (sap, dp, _echo) = followed_node();
    let operating = blocks("docs/operating.md", "console").concat();
    let is_shown = |line: &str| {
        assert!(operating.contains(line), "the page does not say: {line}");
        line.to_owned()
    };

    // A reload, and one that fails.
    assert!(says(&dp, &["reload"]).starts_with(&is_shown("reloaded\n")));
    let before = std::fs::read_to_string(sap.file()).unwrap();
    std::fs::write(sap.file(), before.replace("terminate: ", "to: vido # ")).unwrap();
    let socket = sap.folder().join("admin.sock").display().to_string();
    let failed = program::run(&["reload", "--admin", &socket]);
    let kept = is_shown("hermes: the file is not valid; the configuration in force stays");
    assert_eq!(failed.code, 2, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains(&kept), "{}", failed.stderr);
    std::fs::write(sap.file(), before).unwrap();

    // For a time, then for good: a file that says something else.
    let before = std::fs::read_to_string(dp.file()).unwrap();
    let other = format!("{before}\ndefaults: {{ timeouts: {{ connect: 4s }} }}\n");
    std::fs::write(dp.file(), other).unwrap();
    let timed = says(&dp, &["reload", "--confirm", "60s"]);
    assert!(timed.contains("then back to revision"), "{timed}");
    assert!(says(&dp, &["confirm"]).contains("is confirmed"));

    // The log level, and health by curl.
    says(&dp, &["log", "hermes_proxy=debug,info"]);
    is_shown("the node logs hermes_proxy=debug,info from now on");
    assert!(says(&dp, &["log"]).contains("hermes_proxy=debug,info"));
    let own = dp.folder().join("admin.sock").display().to_string();
    let health = curl(&["--unix-socket", &own, "http://admin/healthz"]).text();
    assert_eq!(health.trim_end(), is_shown("{\"healthy\":true}"));

    // What a node says of itself, and a program through it.
    let status = says(&dp, &["status"]);
    for heading in ["listeners", "upstreams", "endpoints"] {
        assert!(status.contains(heading), "{status}");
    }
    let file = dp.file().display().to_string();
    let difference = program::run(&["diff", &file, "--admin", &own]);
    assert_eq!(difference.code, 0, "{}", difference.stdout);
    let proxied = says(&dp, &["env"]);
    assert!(proxied.contains("http_proxy="), "{proxied}");
}
