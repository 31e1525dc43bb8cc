//! Clients of an old interface before servers of a new one.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Answer, Origin, Question};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, free, program};
use tempfile::TempDir;

/// Bytes of an array that is longer than a node may hold.
const LONG: usize = 24 << 20;

const THROUGH: &str = "\
    listeners: { web: { http: 127.0.0.1:0 } }\n\
    egress: { allow: [127.0.0.0/8] }\n\
    functions: { v1: { translate: { file: v1.yaml } } }\n\
    routes: [ { terminate: true, through: [v1] } ]\n";

/// A node with this mapping.
fn node(mapping: &str) -> Node {
    let folder = folder(mapping);
    Node::start_in(folder, "translate", THROUGH, &[])
}

fn folder(mapping: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("version: 1\n{mapping}");
    std::fs::write(folder.path().join("v1.yaml"), text).unwrap();
    folder
}

/// The status, the reason and the content of the answer to a request.
fn post(node: &Node, url: &str, kind: &str, content: &str) -> Got {
    let proxy = node.url("web");
    let kind = format!("content-type: {kind}");
    // From a file: some are longer than arguments may be.
    let file = node.folder().join("content");
    std::fs::write(&file, content).unwrap();
    let kept = format!("@{}", file.display());
    let got = curl(&["-x", &proxy, "-H", &kind, "--data-binary", &kept, url]);
    Got {
        status: got.status,
        reason: got.field("proxy-status").unwrap_or_default(),
        content: got.text(),
    }
}

#[derive(Debug)]
struct Got {
    status: u16,
    reason: String,
    content: String,
}

/// A program in Python, which ends with the test.
struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python(file: &Path, arguments: &[&str]) -> Command {
    let python = std::env::var_os("HERMES_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg(file).args(arguments);
    command
}

#[test]
fn the_example_of_the_page_does_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/translate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = |kind: &str, index: usize| {
        let text = page.split(&format!("```{kind}\n")).nth(index + 1).unwrap();
        text.split("```").next().unwrap().to_owned()
    };
    let server = free::tcp();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let at = format!("\"{}\", {}", server.ip(), server.port());
        let text = text.replace("\"127.0.0.1\", 54321", &at);
        let file = folder.path().join(name);
        std::fs::write(&file, text.replace("127.0.0.1:54321", &server.to_string())).unwrap();
        file
    };
    let mapping = write("v1.yaml", &block("yaml", 1));
    let old_client = write("client.py", &block("python", 1));
    let new_server = write("server.py", &block("python", 0));

    let said = program::run(&["translate", "test", mapping.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("3 passed, 0 failed"), "{said:?}");

    let mut started = python(&new_server, &[]);
    let _server = Python(started.stderr(Stdio::null()).spawn().unwrap());
    eventually_true("the server listens", || Raw::try_connect(server).is_some());
    let yaml = block("yaml", 0)
        .replace("version: 1\n", "")
        .replace(":3128", ":0");
    let node = Node::start_in(folder, "example", &yaml, &[]);
    let said = python(&old_client, &[&node.url("web")]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        block("text", 0),
        "{said:?}"
    );

    // The new interface is there beside the old one.
    let new = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{server}/v2/people/7"),
    ]);
    assert_eq!(new.json()["name"]["full"], "Ada");
}

const RENAMES: &str = "operations: { a: { from: POST /v1/a, to: POST /echo, content: { move: { a: b } }, answers: { 200: { content: { move: { b: c } } } } } }\n";

#[test]
fn malformed_and_huge_contents_are_refused_with_the_place() {
    let (node, origin) = (node(RENAMES), origins::http());
    let url = format!("http://{}/v1/a", origin.address());
    let got = post(
        &node,
        &url,
        "application/json",
        "{\"a\": 12345678901234567890}",
    );
    assert_eq!(
        (got.status, got.content.as_str()),
        (200, "{\"c\":12345678901234567890}"),
        "{got:?}"
    );

    let deep = "[".repeat(40);
    let long = format!("\"{}\"", "x".repeat(2 << 20));
    let many = format!("[{}0]", "0,".repeat(60_000));
    for (content, status, reason) in [
        (
            "{\"u\": [1, {\"a\": 1, \"a\": 2}]}",
            400,
            "stands twice in an object, in line 1, at byte 21, in u[1].a",
        ),
        ("{\"a\":\n 01}", 400, "in line 2, at byte 9, in a"),
        ("{\"a\": 1", 400, "ends too early"),
        (deep.as_str(), 400, "nested too deeply"),
        (many.as_str(), 400, "too many values"),
        (long.as_str(), 413, "longer than 1048576 bytes"),
    ] {
        let got = post(&node, &url, "application/json", content);
        assert_eq!(got.status, status, "{got:?}");
        assert!(got.reason.contains(reason), "{got:?}");
    }
    let got = post(&node, &url, "application/json; charset=latin1", "{}");
    assert_eq!(got.status, 415, "{got:?}");
    assert_eq!(origin.seen().len(), 1, "the others were not sent");
    let told = node.status()["plugs"]["translate"]["files"].clone();
    let told = told.as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(
        (&told["translated"], &told["refused"]),
        (&1.into(), &7.into()),
        "{told}"
    );
    assert!(told["last_refusal"].as_str().unwrap().contains("latin1"));
}

#[test]
fn an_answer_that_cannot_be_translated_is_refused_and_one_of_another_kind_passes() {
    let mapping = "operations: { a: { from: 'GET /{p*}', to: 'GET /{p}', answers: { any: { content: { move: { a: b } } } } } }\n";
    let origin = origins::deciding(|question: &Question| {
        let (status, kind, content) = match question.request.path.as_str() {
            "/broken" => (200, "application/json", "{\"a\": }"),
            "/page" => (200, "text/html", "<p>"),
            "/events" => (200, "text/event-stream", "data: 1\n\n"),
            "/error" => (503, "text/html", "<p>"),
            _ => (200, "application/json", "{\"a\": 1}"),
        };
        let mut answer = Answer::new(status, &[("content-type", kind), ("etag", "\"x\"")]);
        answer.content = content.to_owned();
        answer
    });
    let node = node(mapping);
    let proxy = node.url("web");
    let ask = |path: &str| curl(&["-x", &proxy, &format!("http://{}{path}", origin.address())]);
    let good = ask("/good");
    assert_eq!(good.text(), "{\"b\":1}");
    let tag = good.field("etag").unwrap();
    assert!(tag.starts_with("\"x~") && tag.len() == 12, "{tag}");
    for (path, reason) in [
        ("/broken", "a value is missing, in line 1, at byte 6, in a"),
        ("/page", "text/html"),
    ] {
        let got = ask(path);
        let told = got.field("proxy-status").unwrap();
        assert_eq!(got.status, 502, "{got:?}");
        assert!(
            told.contains("the answer of the new interface") && told.contains(reason),
            "{told}"
        );
    }
    assert_eq!(ask("/events").text(), "data: 1\n\n");
    let error = ask("/error");
    assert_eq!((error.status, error.text().as_str()), (503, "<p>"));
}

/// An array of so many bytes, with elements `{"a":..}`.
fn long_array(length: usize) -> Vec<u8> {
    let element = format!("{{\"a\":\"{}\"}},", "x".repeat(1000));
    let mut text = String::from("[");
    while text.len() < length {
        text.push_str(&element);
    }
    text.push_str("{}]");
    text.into_bytes()
}

#[test]
fn an_array_of_any_length_passes_element_by_element_in_both_directions() {
    let mapping = "operations: { a: { from: POST /v1/a, to: POST /echo, content: { move: { '[].a': '[].b' } }, answers: { 200: { content: { move: { '[].b': '[].c' }, put: rows } } } } }\n";
    let (node, origin) = (node(mapping), origins::http());
    let before = node.peak();
    let content = long_array(LONG);
    let file = node.folder().join("content");
    std::fs::write(&file, &content).unwrap();
    let url = format!("http://{}/v1/a", origin.address());
    let kept = format!("@{}", file.display());
    let kind = "content-type: application/json";
    let proxy = node.url("web");
    let got = curl(&["-x", &proxy, "-H", kind, "--data-binary", &kept, &url]);
    assert_eq!(got.status, 200, "{:?}", got.field("proxy-status"));
    let content = String::from_utf8(content).unwrap();
    let expected = format!("{{\"rows\":{}}}", content.replace("\"a\":", "\"c\":"));
    assert!(
        got.text() == expected,
        "{} of {} bytes",
        got.text().len(),
        expected.len()
    );
    let grown = node.peak() - before;
    assert!(grown < LONG / 2, "{grown} bytes for {LONG}");
}

#[test]
fn an_element_that_is_wrong_in_the_midst_breaks_the_upload_off_with_the_place() {
    let mapping = "operations: { a: { from: POST /v1/a, to: POST /post, content: { move: { '[].a': '[].b.c' } } } }\n";
    let (node, origin) = (node(mapping), origins::http());
    let mut content = long_array(1 << 20);
    content.truncate(content.len() - 3);
    content.extend_from_slice(b"{\"a\":1,\"b\":2}]");
    let head = format!(
        "POST http://{0}/v1/a HTTP/1.1\r\nHost: {0}\r\nContent-Length: {1}\r\n\r\n",
        origin.address(),
        content.len()
    );
    let mut raw = Raw::connect(node.address("web"));
    raw.send(head);
    raw.send(content);
    let head = raw.head();
    assert_eq!(head.status(), 400, "{head:?}");
    let told = head.field("proxy-status").unwrap();
    assert!(
        told.contains("b.c: a number is where an object should be"),
        "{told}"
    );
}

#[test]
fn a_reload_reads_the_mapping_again_and_keeps_the_old_one_if_it_is_wrong() {
    let (node, origin) = (node(RENAMES), origins::http());
    let url = format!("http://{}/v1/a", origin.address());
    let ask = || post(&node, &url, "application/json", "{\"a\":1}").content;
    assert_eq!(ask(), "{\"c\":1}");

    let file = node.folder().join("v1.yaml");
    std::fs::write(
        &file,
        format!("version: 1\n{}", RENAMES.replace("b: c", "b: d")),
    )
    .unwrap();
    assert_eq!(ask(), "{\"c\":1}", "not before the reload");
    assert_eq!(node.reload(THROUGH).0, 200);
    assert_eq!(ask(), "{\"d\":1}");

    std::fs::write(
        &file,
        "version: 1\noperations: { a: { from: nothing, to: GET / } }\n",
    )
    .unwrap();
    let (status, told) = node.reload(THROUGH);
    assert_ne!(status, 200);
    assert!(
        told.to_string().contains("v1.yaml") && told.to_string().contains("is no request"),
        "{told}"
    );
    assert_eq!(ask(), "{\"d\":1}");
}

/// A server that says who it is, and which path it was asked for.
fn server(name: &'static str) -> Origin<Question> {
    origins::deciding(move |question: &Question| {
        let mut answer = Answer::new(200, &[("content-type", "application/json")]);
        answer.content = format!(
            "{{\"server\":\"{name}\",\"path\":\"{}\"}}",
            question.request.path
        );
        answer
    })
}

#[test]
fn users_move_to_the_new_server_one_population_at_a_time() {
    let (old, new) = (server("old"), server("new"));
    let folder = folder(
        "spoken: [ { path: /v1 } ]\noperations: { a: { from: 'GET /v1/{p*}', to: 'GET /v2/{p}' } }\n",
    );
    let yaml = format!(
        "listeners: {{ moved: {{ http: 127.0.0.1:0, user: alice }}, web: {{ http: 127.0.0.1:0, user: bob }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         upstreams: {{ old: {{ endpoints: [\"{}\"] }}, new: {{ endpoints: [\"{}\"] }} }}\n\
         groups: {{ moved: [alice] }}\n\
         routes:\n  - {{ match: {{ path: /v1/*, user: group:moved }}, to: new, through: [ {{ translate: {{ file: v1.yaml }} }} ] }}\n  \
         - {{ match: {{ path: /v1/* }}, to: old }}\n  - {{ to: new }}\n",
        old.address(),
        new.address()
    );
    let node = Node::start_in(folder, "both", &yaml, &[]);
    let ask = |listener: &str, path: &str| {
        let proxy = node.url(listener);
        curl(&["-x", &proxy, &format!("http://api.test{path}")]).json()
    };
    assert_eq!(ask("moved", "/v1/a")["server"], "new");
    assert_eq!(ask("moved", "/v1/a")["path"], "/v2/a");
    assert_eq!(ask("web", "/v1/a")["server"], "old");
    assert_eq!(ask("web", "/v2/a")["path"], "/v2/a");
}

#[test]
fn a_mapping_that_is_wrong_is_told_by_check_with_its_line() {
    let folder = folder("operations: { a: { from: GET /, to: GET /, content: { movw: {} } } }\n");
    let file = folder.path().join("node.yaml");
    std::fs::write(&file, format!("version: 1\n{THROUGH}")).unwrap();
    let said = program::run(&["check", file.to_str().unwrap()]);
    assert_ne!(said.code, 0);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(
        told.contains("v1.yaml:2") && told.contains("did you mean `move`?"),
        "{told}"
    );
    let said = program::run(&[
        "translate",
        "test",
        "--json",
        folder.path().join("v1.yaml").to_str().unwrap(),
    ]);
    assert_eq!(said.code, 2);
    assert!(said.stdout.contains("\"line\""), "{said:?}");
}
