//! `hermes-lab` in little: a command, and the figures that it has measured.

use std::process::Command;

use serde_json::Value;

use crate::program;

/// The results of one command.
pub struct Measured {
    /// As it was shown in the terminal.
    pub table: String,
    series: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Measured {
    /// Runs a command in its short form, once, with the program under test.
    ///
    /// # Panics
    /// When it fails.
    pub fn short(command: &str, arguments: &[&str]) -> Self {
        let hermes = program::path();
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("measured.json");
        let output = Command::new(hermes.with_file_name("hermes-lab"))
            .args([command, "--short", "--repeats", "1"])
            .args(arguments)
            .args(["--hermes".as_ref(), hermes.as_os_str()])
            .args(["--json".as_ref(), json.as_os_str()])
            .args(["--svg".as_ref(), folder.path().as_os_str()])
            .output()
            .unwrap();
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{table}\n{errors}");

        let measured = std::fs::read_to_string(&json).unwrap();
        let mut measured: Value = serde_json::from_str(&measured).unwrap();
        let Value::Array(series) = measured["series"].take() else {
            panic!("{measured}");
        };
        Self {
            table,
            series,
            folder,
        }
    }

    /// Whether a system has any figure of a case.
    pub fn has(&self, case: &str, system: &str) -> bool {
        let mut series = self.series.iter();
        series.any(|one| one["case"] == case && one["system"] == system)
    }

    /// A figure of a system.
    ///
    /// # Panics
    /// When it was not measured.
    pub fn value(&self, case: &str, system: &str, figure: &str) -> f64 {
        let mut series = self.series.iter();
        let found = series
            .find(|one| one["case"] == case && one["system"] == system && one["name"] == figure);
        let found = found.unwrap_or_else(|| panic!("{case}, {figure} of {system}: {}", self.table));
        found["values"][0].as_f64().unwrap()
    }

    /// The picture of this name.
    ///
    /// # Panics
    /// When it was not drawn.
    pub fn picture(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }
}
