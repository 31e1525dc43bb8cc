//! `hermes-lab push`, in little: the relay beside NATS.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

#[test]
fn the_relay_and_nats_are_measured_and_no_message_of_either_is_lost() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("push.json");
    // It counts each message that it sent, at each subscriber, and fails if one does not come.
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["push", "--short", "--repeats", "1"])
        .args(["--hermes".as_ref(), hermes.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .arg("--svg")
        .arg(folder.path())
        .output()
        .unwrap();

    let table = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{errors}");
    let measured = std::fs::read_to_string(&json).unwrap();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    let series = measured["series"].as_array().unwrap();
    for system in ["hermes", "nats"] {
        for (case, figure) in [
            ("100 B to 1,000 subscribers", "p50"),
            ("100 B without pause to 100 subscribers", "deliveries"),
            ("1 MB to 1 subscriber", "rate"),
            ("idle subscribers", "2000, each"),
        ] {
            let found = series.iter().find(|series| {
                series["case"] == case && series["system"] == system && series["name"] == figure
            });
            let found = found.unwrap_or_else(|| panic!("{case}, {figure} of {system}: {table}"));
            assert!(
                found["values"][0].as_f64().unwrap() > 0.0,
                "{case} of {system}"
            );
        }
    }
    let picture = std::fs::read_to_string(folder.path().join("push.svg")).unwrap();
    assert!(picture.contains("nats"), "{picture}");
}
