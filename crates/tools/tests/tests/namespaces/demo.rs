//! `hermes demo --ip`, as anyone runs it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hermes_tests::program;
use serde_json::Value;

#[test]
fn the_demo_of_ip_packets_moves_everything_and_loses_nothing() {
    let shown = program::command()
        .args(["demo", "--ip", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shown.stdout);
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{said}\n{errors}");
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["passed"], 4, "{report:#}");
    assert_eq!(report["failed"], 0, "{report:#}");
}

#[test]
fn who_is_not_root_is_told_what_it_takes() {
    // Where others may run it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let hermes = folder.path().join("hermes");
    program::copy(&hermes);
    let other = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let shown = Command::new("setpriv")
        .args(other)
        .arg(&hermes)
        .args(["demo", "--ip"])
        .output();
    let shown = shown.unwrap();
    assert_eq!(shown.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(
        errors.contains("takes root") && errors.contains("sudo hermes demo --ip"),
        "{errors}"
    );
}
