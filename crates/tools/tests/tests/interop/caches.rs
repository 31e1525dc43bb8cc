//! The cases of `hermes-lab cache`: RFC 9111 for shared caches, played against Hermes and nginx in the same run.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

#[test]
fn hermes_does_all_that_rfc_9111_says_must_and_should_be_and_more_than_nginx() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("cases.json");
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["cache", "--cases", "--systems", "hermes,nginx"])
        .args(["--hermes".as_ref(), hermes.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{output:?}");

    let results: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let cases = results["cases"].as_array().unwrap();
    assert!(cases.len() > 70, "{said}");
    let passed = |system: &str| {
        let of_system = cases
            .iter()
            .filter(|case| case["failures"][system].is_null());
        of_system.count()
    };
    let failed: Vec<_> = cases
        .iter()
        .filter(|case| case["level"] != "MAY" && !case["failures"]["hermes"].is_null())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(passed("hermes") > passed("nginx"), "{said}");
}
