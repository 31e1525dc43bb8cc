//! `hermes-lab rate-limit`, in little: clients of an origin that bounds its rate, alone, behind Hermes and behind Envoy.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

#[test]
fn an_origin_refuses_fewer_requests_of_hermes_than_of_clients_alone_or_of_envoy() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("pace.json");
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["rate-limit", "--short", "--repeats", "1"])
        .args(["--systems", "alone,hermes,envoy"])
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
    let refused = |case: &str, system: &str| {
        let mut found = series.iter();
        let found = found.find(|one| {
            one["case"] == case && one["system"] == system && one["name"] == "refused by the origin"
        });
        found.unwrap()["values"][0].as_f64().unwrap()
    };
    for case in [
        "100 clients, RateLimit fields",
        "100 clients, Retry-After",
        "100 clients, only 429",
    ] {
        let [alone, paced, envoy] = ["alone", "hermes", "envoy"].map(|name| refused(case, name));
        assert!(paced < alone / 2.0 && paced < envoy, "{case}: {table}");
    }
}
