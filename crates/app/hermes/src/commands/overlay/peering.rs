//! `hermes peering`: the overlay of another operator.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hermes_api::Name;
use hermes_control::service::{Import as Asked, PeeringView};

use super::ask::ControllerSocket;
use super::look::time;
use super::{apply, changes};
use crate::admin;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{NOTHING, plain};

/// Arguments of `hermes peering`.
#[derive(Debug, Args)]
pub struct PeeringArguments {
    #[command(subcommand)]
    command: PeeringCommand,
}

/// Subcommands of `hermes peering`.
#[derive(Debug, Subcommand)]
enum PeeringCommand {
    /// Print the description of this overlay for the operator of another one.
    Export(Export),
    /// Take in the description of another overlay, or a newer one of it, and say what is exported to it.
    Import(Import),
    /// List other overlays, and when their authorities have to be taken anew.
    List(PeeringList),
}

/// Arguments of `hermes peering export`.
#[derive(Debug, Args)]
struct Export {
    /// For this peering: with its nodes at the border. Default: the nodes where devices enter.
    peering: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Arguments of `hermes peering import`.
#[derive(Debug, Args)]
struct Import {
    /// The output of the other operator's `hermes peering export`; `-` is standard input.
    file: PathBuf,
    /// The name of the other overlay here. Default: the first label of its domain.
    #[arg(long)]
    name: Option<Name>,
    /// Our nodes at the border. Default: those of before, or the nodes where devices enter.
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    at: Vec<Name>,
    /// Our names that its users may ask for, as NAME.OUR-DOMAIN. Default: those of before.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = exported)]
    export: Vec<Name>,
    /// Its users who may ask for them, as they are called there. Default: all.
    #[arg(long, value_name = "USER", value_delimiter = ',', requires = "export")]
    to: Vec<String>,
    /// Overlay fields that are taken from it; all others are removed. Default: those of before.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    accept: Vec<String>,
    /// Our users who may ask for its names, as NAME.ITS-DOMAIN: names, group:NAME, or * for all.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    allow: Vec<String>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Arguments of `hermes peering list`.
#[derive(Debug, Args)]
struct PeeringList {
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Resources are named in lower case, and people say VIDEO.
fn exported(text: &str) -> Result<Name, String> {
    let name = text.to_ascii_lowercase().parse::<Name>();
    name.map_err(|error| error.to_string())
}

/// Exports, imports or lists.
///
/// # Errors
/// The controller cannot be reached, the file is no description, or a node refused the change.
pub async fn run(peering: &PeeringArguments, output: Output) -> Result<(), Failure> {
    match &peering.command {
        PeeringCommand::Export(asked) => export(asked, output).await,
        PeeringCommand::Import(asked) => import(asked, output).await,
        PeeringCommand::List(asked) => list(asked, output).await,
    }
}

async fn export(export: &Export, output: Output) -> Result<(), Failure> {
    let query = export.peering.as_ref().map_or("", |name| name.as_str());
    let answer = export.controller.get(&format!("/peering?{query}")).await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    output.line(
        "# the other operator runs: hermes peering import FILE --export NAME,.. --allow USER,..",
    );
    output.line(answer["yaml"].as_str().unwrap_or_default().trim_end());
    Ok(())
}

async fn import(import: &Import, output: Output) -> Result<(), Failure> {
    let mut files = apply::files(std::slice::from_ref(&import.file))?;
    let file = files
        .pop()
        .ok_or_else(|| Failure::invalid("there is no file"))?;
    let asked = Asked {
        file: file.name,
        text: file.text,
        name: import.name.clone(),
        at: import.at.clone(),
        exports: import.export.clone(),
        to: import.to.clone(),
        accepts: import.accept.clone(),
        allow: import.allow.clone(),
        how: changes::how(),
    };
    let mut answer = import.controller.change("/peering", &asked).await?;
    if let Some(yaml) = answer["resources"].as_str().filter(|_| !output.json) {
        output.line(yaml.trim_end());
    }
    changes::follow(&import.controller, answer["changed"].take(), output).await
}

async fn list(list: &PeeringList, output: Output) -> Result<(), Failure> {
    let answer = list.controller.get("/peerings").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let views: Vec<PeeringView> = admin::typed(answer)?;
    let mut table = plain(&["NAME", "DOMAIN", "AT", "EXPORTS", "RENEW", "UNTIL"]);
    let words = |names: &[Name]| {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        names.join(",")
    };
    let at = |seconds: Option<u64>| seconds.map_or_else(|| NOTHING.to_owned(), time);
    for view in views {
        table.add_row([
            view.name.to_string(),
            view.domain.clone(),
            words(&view.at),
            words(&view.exports),
            at(view.renew),
            at(view.until),
        ]);
    }
    output.line(table.trim_fmt());
    Ok(())
}
