//! `hermes translate test FILE..`: whether mappings of old interfaces translate as their tests say.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hermes_config::Problems;
use hermes_translate::{read_mapping, run_trials};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};

/// Arguments of `hermes translate`.
#[derive(Debug, Args)]
pub struct TranslateCommand {
    #[command(subcommand)]
    action: TranslateAction,
}

#[derive(Debug, Subcommand)]
enum TranslateAction {
    /// Check mappings, and run the tests in their files.
    Test(TestMappings),
    /// Print the JSON Schema of a mapping.
    Schema,
}

#[derive(Debug, Args)]
struct TestMappings {
    /// Files of mappings.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A test that ran.
struct RanTrial {
    name: String,
    /// `file:line`.
    place: String,
    failed: Option<String>,
}

/// Runs the tests, or prints the schema.
///
/// # Errors
/// With exit code 2 if a file is wrong or has no test, with 1 if a test fails.
pub fn run(command: &TranslateCommand, output: Output) -> Result<(), Failure> {
    let test = match &command.action {
        TranslateAction::Test(test) => test,
        TranslateAction::Schema => {
            output.value(hermes_translate::mapping_schema());
            return Ok(());
        }
    };

    let mut ran = Vec::new();
    let mut problems = Vec::new();
    for file in &test.files {
        match read_mapping(file) {
            Ok(mapping) => ran.extend(run_trials(&mapping).into_iter().map(|trial| RanTrial {
                place: format!("{}:{}", file.display(), trial.line),
                name: trial.name,
                failed: trial.failed,
            })),
            Err(wrong) => problems.extend(wrong.0),
        }
    }
    if !problems.is_empty() {
        match output.json {
            true => output.value(&Problems(problems)),
            false => problems.iter().for_each(|problem| output.line(problem)),
        }
        return Err(Failure::told(2));
    }

    show(&ran, output);
    if ran.is_empty() {
        let failure = Failure::invalid("there is no test in these files");
        return Err(failure.remedy("write some under `tests`"));
    }
    match ran.iter().any(|test| test.failed.is_some()) {
        true => Err(Failure::told(1)),
        false => Ok(()),
    }
}

fn show(ran: &[RanTrial], output: Output) {
    if output.json {
        let tests = ran.iter().map(|test| {
            json!({ "name": test.name, "place": test.place, "passed": test.failed.is_none(), "failed": test.failed })
        });
        output.value(&tests.collect::<Vec<Value>>());
        return;
    }
    for test in ran {
        let name = &test.name;
        match &test.failed {
            None => output.line(format_args!("{}  {name}", output.paint(Colour::Good, "ok"))),
            Some(failed) => output.line(format_args!(
                "{}  {}: {name}: {failed}",
                output.paint(Colour::Bad, "FAILED"),
                test.place
            )),
        }
    }
    let failed = ran.iter().filter(|test| test.failed.is_some()).count();
    output.line(format_args!(
        "{} passed, {failed} failed",
        ran.len() - failed
    ));
}
