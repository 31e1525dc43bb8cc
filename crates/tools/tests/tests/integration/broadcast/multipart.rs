//! All replies in one, as a parser that is not ours reads it.

use std::io::Write;
use std::process::{Command, Stdio};

use hermes_tests::origins::{Answer, deciding};
use serde_json::{Value, json};

use super::{broadcast, node_with};

/// Reads a message from its input and says what its parts are.
const READER: &str = r#"
import base64, email, json, sys
message = email.message_from_bytes(sys.stdin.buffer.read())
assert message.get_content_type() == "multipart/mixed" and message.is_multipart() and not message.defects
parts = [{
    "copy": part["X-Hermes-Copy"], "status": int(part["X-Hermes-Status"]), "type": part.get_content_type(),
    "fields": part.get_all("x-a") or [], "content": base64.b64encode(part.get_payload(decode=True)).decode(),
    "defects": len(part.defects),
} for part in message.get_payload()]
print(json.dumps(parts))
"#;

fn read(kind: &str, content: &[u8]) -> Value {
    let python = std::env::var_os("HERMES_PYTHON")
        .expect("HERMES_PYTHON names Python; run `./test install`");
    let mut reader = Command::new(python)
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = reader.stdin.take().unwrap();
    input
        .write_all(format!("Content-Type: {kind}\r\n\r\n").as_bytes())
        .unwrap();
    input.write_all(content).unwrap();
    drop(input);
    let said = reader.wait_with_output().unwrap();
    assert!(said.status.success());
    serde_json::from_slice(&said.stdout).unwrap()
}

#[test]
fn pythons_email_parser_reads_every_part() {
    let text = deciding(|_| Answer {
        content: "one\r\n--two\r\n".to_owned(),
        ..Answer::new(
            200,
            &[("content-type", "text/plain"), ("x-a", "1"), ("x-a", "2")],
        )
    });
    let missing = deciding(|_| {
        Answer::new(
            404,
            &[("content-type", "text/html"), ("x-hermes-status", "200")],
        )
    });
    let gone = deciding(|_| Answer::new(200, &[]));
    let address = gone.address();
    drop(gone);
    let silent = deciding(|_| Answer::default());
    let upstream = format!(
        "endpoints: [\"{}\", \"{}\", \"{address}\", \"{}\"]",
        text.address(),
        missing.address(),
        silent.address()
    );
    let node = node_with(&upstream, "{ users: [alice], reply: all, time: 3s }");
    let got = broadcast(&node, &["http://video/"]);
    assert_eq!(got.status, 200);
    let mut parts = read(&got.field("content-type").unwrap(), &got.body);
    let reason = parts[2]["content"].take();
    assert!(reason.as_str().is_some_and(|reason| !reason.is_empty()));
    let base64 = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let part = |number: usize, status: u16, kind: &str, fields: &[&str], content: Value| {
        json!({
            "copy": format!("shards/{number}"), "status": status, "type": kind, "fields": fields, "content": content,
            "defects": 0,
        })
    };
    let expected = json!([
        part(
            0,
            200,
            "text/plain",
            &["1", "2"],
            base64("one\r\n--two\r\n").into()
        ),
        part(1, 404, "text/html", &[], base64("").into()),
        part(2, 502, "text/plain", &[], Value::Null),
        part(
            3,
            504,
            "text/plain",
            &[],
            base64("no reply came in time\n").into()
        ),
    ]);
    assert_eq!(parts, expected);
    let head = broadcast(&node, &["-I", "http://video/"]);
    assert!(
        head.status == 200
            && head
                .field("content-type")
                .unwrap()
                .starts_with("multipart/mixed"),
        "{head:?}"
    );
}
