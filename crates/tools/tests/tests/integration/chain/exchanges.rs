//! Exchanges of every kind, as Alice's programs make them.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use hermes_tests::raw::{End, Raw};
use hermes_tests::{curl, origins, udp};

use crate::chain::overlay::Overlay;

/// Content of a POST, in bytes.
const CONTENT: usize = 1_000_000;

/// Datagrams of one client.
const DATAGRAMS: usize = 20;

/// Makes `count` exchanges of five kinds at once.
pub fn round(overlay: &Overlay, count: usize) {
    let kinds = [get, post, sealed, server_first, datagrams];
    thread::scope(|scope| {
        for (number, kind) in kinds.iter().cycle().take(count).enumerate() {
            scope.spawn(move || kind(overlay, number));
        }
    });
}

fn get(overlay: &Overlay, number: usize) {
    let mut raw = Raw::connect(overlay.alice().address("web"));
    let length = 10_000 + number;
    raw.send(format!(
        "GET http://VIDEO/bytes/{length} HTTP/1.1\r\nHost: VIDEO\r\n\r\n"
    ));
    let (head, content) = raw.response();
    assert_eq!((head.status(), content.len()), (200, length));
}

fn post(overlay: &Overlay, number: usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("content");
    let content: Vec<u8> = (0..CONTENT).map(|at| (at % 251 + number) as u8).collect();
    std::fs::write(&file, &content).unwrap();
    let (proxy, file) = (overlay.alice().url("web"), format!("@{}", file.display()));
    let output = curl(&["-x", &proxy, "--data-binary", &file, "http://VIDEO/echo"]);
    assert_eq!((output.exit, output.status), (0, 200), "{}", output.stderr);
    assert!(
        output.body == content,
        "{} bytes came back",
        output.body.len()
    );
}

fn sealed(overlay: &Overlay, number: usize) {
    let (proxy, authority) = (overlay.alice().url("web"), overlay.pki.ca());
    let url = format!("https://secure/bytes/{number}");
    let output = curl(&["-x", &proxy, "--cacert", authority.to_str().unwrap(), &url]);
    assert_eq!(
        (output.exit, output.status, output.body.len()),
        (0, 200, number),
        "{}",
        output.stderr
    );
}

fn server_first(overlay: &Overlay, number: usize) {
    let mut raw = Raw::connect(overlay.alice().address("db"));
    assert_eq!(
        raw.exactly(origins::GREETING.len()),
        origins::GREETING.as_bytes()
    );
    let question = vec![b'q'; number + 1];
    raw.send(&question);
    assert_eq!(raw.exactly(question.len()), question);
    raw.finish();
    assert_eq!(
        raw.rest(),
        (origins::farewell(question.len()).into_bytes(), End::Closed)
    );
}

fn datagrams(overlay: &Overlay, number: usize) {
    let client = udp::Client::connect(overlay.alice().address("echo"));
    let mut missing: BTreeSet<Vec<u8>> = (0..DATAGRAMS)
        .map(|at| format!("{number}: {at}").into_bytes())
        .collect();
    // Datagrams may be lost; those that are not answered are sent again.
    hermes_tests::eventually("every datagram is answered", || {
        missing.iter().for_each(|datagram| client.send(datagram));
        while let Some(answer) = client.receive_within(Duration::from_millis(500)) {
            missing.remove(&answer);
            if missing.is_empty() {
                return Some(());
            }
        }
        None
    });
}
