//! `hermes schema`: the form of configuration files, for editors and other programs.

use crate::failure::Failure;
use crate::output::Output;

/// Prints the JSON Schema.
pub fn run(output: Output) -> Result<(), Failure> {
    output.value(&hermes_config::schema());
    Ok(())
}
