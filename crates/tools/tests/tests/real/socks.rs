//! `hermes-lab socks`, in little: dante and microsocks beside Hermes, and round trips counted over slow links.

use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

/// Without sing-box, which takes minutes to build.
const SYSTEMS: [&str; 5] = ["direct", "hermes", "hermes6", "dante", "microsocks"];

#[test]
fn proxies_of_socks_are_measured_and_round_trips_are_those_of_the_formulas() {
    let hermes = program::path();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("socks.json");
    let output = Command::new(hermes.with_file_name("hermes-lab"))
        .args(["socks", "--short", "--repeats", "1", "--systems"])
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
    let value = |case: &str, system: &str, figure: &str| {
        let found = series.iter().find(|series| {
            series["case"] == case && series["system"] == system && series["name"] == figure
        });
        let found = found.unwrap_or_else(|| panic!("{case}, {figure} of {system}: {table}"));
        found["values"][0].as_f64().unwrap()
    };

    for system in SYSTEMS {
        for (case, figure) in [
            ("new connection", "p50"),
            ("1,000 at once", "all answered"),
            ("bulk, 8 flows", "rate"),
        ] {
            assert!(value(case, system, figure) > 0.0, "{case} of {system}");
        }
    }
    // SOCKS5: the connection, method, request, and the byte itself. SOCKS6: the connection, and all the rest.
    let trips = "round trips to the first byte";
    for (system, to_proxy) in [("direct", 2.0), ("hermes", 4.0), ("hermes6", 2.0)] {
        assert_eq!(
            value(trips, system, "client to proxy"),
            to_proxy,
            "{system}"
        );
        assert_eq!(value(trips, system, "proxy to server"), 2.0, "{system}");
    }
}
