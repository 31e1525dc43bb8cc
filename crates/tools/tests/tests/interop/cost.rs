//! `hermes-lab policy`, in little: every kind of decision is reached and allows what the client does, in Hermes and in Envoy.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

/// The systems, in the order of the table: each way to decide, and each proxy without one.
const SYSTEMS: [&str; 7] = [
    "hermes",
    "native10",
    "rego",
    "hermes-opa",
    "hermes-grpc",
    "envoy",
    "envoy-opa",
];

#[test]
fn every_kind_of_decision_is_measured() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("decisions.json");
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["policy", "--short", "--repeats", "1", "--systems"])
        .arg(SYSTEMS.join(","))
        .args(["--hermes".as_ref(), hermes.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();

    let table = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{errors}");
    for goal in ["time", "processor time"] {
        let goal =
            format!("a policy in Rego in Hermes adds, of the {goal} that Envoy with OPA adds: ");
        assert!(table.contains(&goal), "{table}");
    }

    let measured = std::fs::read_to_string(&json).unwrap();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    let systems = measured["systems"].as_array().unwrap();
    let names: Vec<&str> = systems
        .iter()
        .map(|system| system[0].as_str().unwrap())
        .collect();
    assert_eq!(names, SYSTEMS);
    for figure in ["kept", "new", "tunnel", "processor"] {
        for system in systems {
            let value = system[1][0][figure].as_f64().unwrap();
            assert!(value > 0.0, "{figure} of {}", system[0]);
        }
    }
}
