//! Processors of Envoy's `ext_proc`: the server is the official Python library of gRPC, with messages that are generated of Envoy's own
//! definitions.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, curl};

/// The processor, whose changes its own file names.
struct PythonProcessor {
    process: Child,
    port: String,
}

impl PythonProcessor {
    fn start() -> Self {
        let python = std::env::var("HERMES_PYTHON")
            .expect("HERMES_PYTHON names Python: ./test interop sets it");
        let mut process = Command::new(python)
            .args(["-c", include_str!("processor.py")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        Self {
            process,
            port: port.trim().to_owned(),
        }
    }
}

impl Drop for PythonProcessor {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A node that leads everything through the processor to an origin.
fn processed(processor: &PythonProcessor, origin: &Origin<Request>) -> Node {
    let port = &processor.port;
    let origin = origin.address();
    Node::start(
        "sap",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            functions: {{ p: {{ ext_proc: {{ to: "127.0.0.1:{port}" }} }} }}
            routes: [{{ terminate: "{origin}", through: [p] }}]
            "#
        ),
    )
}

#[test]
fn a_processor_of_the_official_library_changes_heads_and_contents() {
    let processor = PythonProcessor::start();
    let origin = origins::http();
    let node = processed(&processor, &origin);
    let url = node.url("web");

    // Longer than the pieces in which it is shown, and than a window.
    let content = "small words ".repeat(30_000);
    let file = node.folder().join("content");
    std::fs::write(&file, &content).unwrap();
    let file = format!("@{}", file.display());
    let secret = ["-H", "X-Secret: s"];
    let post = [
        "-x",
        &url,
        "--data-binary",
        &file,
        "http://any.example/echo",
    ];
    let got = curl(&[&post[..], &secret].concat());
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.field("x-python-answer").as_deref(), Some("yes"));

    let seen = origin.last();
    assert_eq!(seen.field("x-python").as_deref(), Some("yes"), "{seen:?}");
    assert_eq!(seen.field("x-secret"), None);
    // Changed on both ways, and in their order.
    assert_eq!(got.text(), content.to_uppercase().replace('S', "5"));
}

#[test]
fn a_processor_of_the_official_library_answers_in_place_of_the_target() {
    let processor = PythonProcessor::start();
    let origin = origins::http();
    let node = processed(&processor, &origin);
    let url = node.url("web");
    let got = curl(&["-x", &url, "-H", "X-Deny: 1", "http://any.example/"]);
    assert_eq!(got.status, 403, "{got:?}");
    assert_eq!(got.text(), "not this");
    assert!(origin.seen().is_empty());
}
