//! Messages that the relay cannot read.

use std::fs::File;
use std::process::Stdio;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{curl, program};

use super::script::Script;
use super::subscriber::Subscriber;
use super::{channel, relay, subscriptions};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

#[test]
fn those_who_have_the_url_read_what_its_relay_does_not() {
    let node = relay("");
    let url = channel(node.address("web"));
    let sealed = format!("{url}#{KEY}");
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let mut child = program::command()
        .args(["subscribe", &sealed, "--count", "3", "--json"])
        .stdin(Stdio::null())
        .stdout(File::create(&got).unwrap())
        .spawn()
        .unwrap();
    let script = Script::begin(
        &sealed,
        r#"
        for await (const event of channel.subscribe()) {
            console.log(event.gap === undefined ? `${event.type} ${event.text()}` : `gap ${event.gap} ${event.reason}`);
            if (event.seq === 2) await channel.publish("from the script", { type: "text/html" });
            if (event.seq === 3) break;
        }
        "#,
    );
    let stranger = Subscriber::begin(&url, &["-H", "Accept: application/octet-stream"]);
    eventually_true("three subscribe", || subscriptions(&node) == 3);
    assert_eq!(
        curl(&["-d", "by a stranger", &url]).text(),
        "receivers: 3\n"
    );
    let said = program::run(&[
        "publish",
        &sealed,
        "from the program",
        "--type",
        "text/plain",
    ]);
    assert_eq!(said.stdout, "receivers: 3\n", "{}", said.stderr);

    let said = script.ends();
    assert_eq!(
        said,
        "gap 1 unreadable\ntext/plain from the program\ntext/html from the script\n"
    );
    assert!(child.wait().unwrap().success());
    let got = std::fs::read_to_string(&got).unwrap();
    let wanted = [
        r#"{"gap":1,"reason":"unreadable"}"#,
        r#""data":"from the program""#,
        r#""data":"from the script""#,
    ];
    for (line, wanted) in got.lines().zip(wanted) {
        assert!(line.contains(wanted), "{got}");
    }
    assert_eq!(got.lines().count(), 3, "{got}");
    let seen = stranger.sees("by a stranger");
    assert!(!seen.contains("from the"), "{seen}");
}
