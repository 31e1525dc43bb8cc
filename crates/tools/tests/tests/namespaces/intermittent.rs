//! Links of which one is up at a time: a download by an unmodified client arrives whole.

use std::process::Command;

use hermes_tests::program;

/// The lab compares times with what the links allow; here it is enough that every byte arrives, on a machine of any speed.
const MARGIN: &str = "100";

#[test]
fn a_download_over_three_links_in_turn_arrives_whole() {
    let hermes = program::path();
    let lab = hermes.with_file_name("hermes-lab");
    let output = Command::new(lab)
        .args(["intermittent", "--short", "--margin", MARGIN, "--hermes"])
        .arg(&hermes)
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{errors}");
    assert!(table.contains("1 of 1"), "{table}");
}
