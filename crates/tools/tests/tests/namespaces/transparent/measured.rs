//! `hermes-lab split`, in little: each way to capture carries all that is measured.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

const SYSTEMS: [&str; 4] = ["direct", "hermes", "hermes-split", "hermes-stack"];

#[test]
fn each_way_to_capture_is_measured_and_only_one_that_holds_shows_refusals() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("split.json");
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["split", "--short", "--repeats", "1", "--systems"])
        .arg(SYSTEMS.join(","))
        .args(["--hermes".as_ref(), hermes.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{errors}");

    let measured = std::fs::read_to_string(&json).unwrap();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    let series = measured["series"].as_array().unwrap();
    let of = |case: &str, system: &str| {
        let mut found = series.iter();
        found.any(|one| one["case"] == case && one["system"] == system)
    };
    for system in SYSTEMS {
        for case in ["connect", "new connection", "kept connection", "256 MB"] {
            assert!(of(case, system), "{case} of {system}: {table}");
        }
        // A client of one that accepts first is told that the server has accepted it.
        assert_eq!(
            of("refused", system),
            system != "hermes",
            "{system}: {table}"
        );
    }
}
