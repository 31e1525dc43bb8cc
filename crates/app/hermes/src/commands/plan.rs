//! `hermes plan areas FILE`: the functions that let data move between areas, and where they run.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hermes_config::nearest;
use hermes_plan::documents::{PlaceDocument, documents, path_name};
use hermes_plan::{AreaId, AreaPair, Areas, Plan, Planner, Unplanned, Verdict, Work};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table;

/// Bytes of a file of areas.
#[doc(alias = "bound")]
const FILE: u64 = 32 << 20;

/// Pairs that are listed where no path is named: more are counted.
#[doc(alias = "bound")]
const LISTED: usize = 200;

/// The first line of files that this command may write over.
const MADE: &str = "# Made by `hermes plan areas`: change the areas, not this file.\n";

/// Arguments of `hermes plan`.
#[derive(Debug, Args)]
pub struct PlanCommand {
    #[command(subcommand)]
    what: Planned,
}

#[derive(Debug, Subcommand)]
enum Planned {
    /// Show the functions between areas: for the paths that the file wants, for all pairs if it wants none, or for one pair.
    Areas(AreasCommand),
}

#[derive(Debug, Args)]
struct AreasCommand {
    /// The file of areas.
    file: PathBuf,
    /// The area where a path begins.
    #[arg(long, value_name = "AREA", requires = "to")]
    from: Option<String>,
    /// The area where it ends.
    #[arg(long, value_name = "AREA", requires = "from")]
    to: Option<String>,
    /// Say what is missing between the areas, and what each function gives.
    #[arg(long)]
    explain: bool,
    /// Write the routes of each place to a file in this folder, which its node includes.
    #[arg(long, value_name = "FOLDER")]
    documents: Option<PathBuf>,
}

/// A path and its plan.
struct PlannedPath {
    pair: AreaPair,
    plan: Result<Plan, Unplanned>,
}

/// Plans, and shows or writes the result.
///
/// # Errors
/// With exit code 1 if a path that was asked for cannot be planned; with 2 if the file is wrong.
pub fn run(command: &PlanCommand, output: Output) -> Result<(), Failure> {
    let Planned::Areas(command) = &command.what;
    let areas = Areas::read(&command.file, &read(&command.file)?)?;
    let mut planner = Planner::new(&areas);
    let mut work = Work::default();
    let answers = match (&command.from, &command.to) {
        (Some(from), Some(to)) => {
            let pair = AreaPair {
                from: area(&areas, from)?,
                to: area(&areas, to)?,
            };
            vec![PlannedPath {
                pair,
                plan: planner.plan(pair, &mut work),
            }]
        }
        _ if areas.paths().is_empty() => return all(command, &areas, &mut planner, output),
        _ => {
            let plans = planner.wanted(&mut work).into_iter();
            let pairs = areas.paths().iter().copied();
            pairs
                .zip(plans)
                .map(|(pair, plan)| PlannedPath { pair, plan })
                .collect()
        }
    };

    if let Some(folder) = &command.documents {
        let plans = answers.iter().filter_map(|answer| answer.plan.clone().ok());
        write(folder, &documents(&areas, &plans.collect::<Vec<_>>())?)?;
    }
    match output.json {
        true => output.value(&as_json(&areas, &answers)),
        false => show(&areas, &answers, command.explain, output),
    }
    match answers.iter().all(|answer| answer.plan.is_ok()) {
        true => Ok(()),
        false => Err(Failure::told(1)),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::invalid(format!("{}: {error}", file.display()));
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(failed)?;
    // One byte more than may be, which the reader refuses.
    let mut limited = opened.take(FILE + 1);
    limited.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn area(areas: &Areas, name: &str) -> Result<AreaId, Failure> {
    areas.area(name).ok_or_else(|| {
        let failure = Failure::invalid(format!("there is no area `{name}`"));
        match nearest(name, areas.names()) {
            Some(meant) => failure.remedy(format!("did you mean `{meant}`?")),
            None => failure.remedy("`areas` of the file names them"),
        }
    })
}

/// Shows all pairs.
fn all(
    command: &AreasCommand,
    areas: &Areas,
    planner: &mut Planner<'_>,
    output: Output,
) -> Result<(), Failure> {
    if command.documents.is_some() {
        let failure = Failure::invalid("documents are made for paths, and the file wants none");
        return Err(failure.remedy("name them under `paths`, or with --from and --to"));
    }
    let mut pairs = Vec::new();
    let mut counts = PairCounts::default();
    let told = planner.each_pair(&mut Work::default(), |pair, verdict| {
        counts.add(verdict);
        if pairs.len() < LISTED {
            pairs.push(pair);
        }
    });
    told.map_err(|unplanned| Failure::failed(unplanned.to_string()))?;

    let mut work = Work::default();
    let answers: Vec<PlannedPath> = pairs
        .into_iter()
        .map(|pair| PlannedPath {
            pair,
            plan: planner.plan(pair, &mut work),
        })
        .collect();
    if output.json {
        let mut json = as_json(areas, &answers);
        json["pairs"] = counts.json();
        output.value(&json);
        return Ok(());
    }
    show(areas, &answers, command.explain, output);
    output.line(counts.words());
    if counts.all() > answers.len() {
        let listed = answers.len();
        output.line(format!("{listed} are listed; --from and --to name another"));
    }
    Ok(())
}

/// Pairs by their verdicts.
#[derive(Default)]
struct PairCounts {
    direct: usize,
    bridged: usize,
    unbridgeable: usize,
}

impl PairCounts {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Direct(_) => self.direct += 1,
            Verdict::Bridged(_) => self.bridged += 1,
            Verdict::Unbridgeable | Verdict::TooManyAttributes => self.unbridgeable += 1,
        }
    }

    fn all(&self) -> usize {
        self.direct + self.bridged + self.unbridgeable
    }

    /// Unbridgeable pairs of those that need a bridge, in per cent: the ratio of the paper.
    fn infeasible_percent(&self) -> usize {
        let need = self.bridged + self.unbridgeable;
        (self.unbridgeable * 100).checked_div(need).unwrap_or(0)
    }

    fn words(&self) -> String {
        format!(
            "{} pairs: {} need no function, {} are bridged, {} cannot be ({} % of those that need one)",
            self.all(),
            self.direct,
            self.bridged,
            self.unbridgeable,
            self.infeasible_percent()
        )
    }

    fn json(&self) -> Value {
        json!({
            "all": self.all(),
            "direct": self.direct,
            "bridged": self.bridged,
            "unbridgeable": self.unbridgeable,
            "infeasible_percent": self.infeasible_percent(),
        })
    }
}

fn as_json(areas: &Areas, answers: &[PlannedPath]) -> Value {
    let paths = answers.iter().map(|answer| match &answer.plan {
        Ok(plan) => json!({ "name": path_name(plan), "plan": plan }),
        Err(unplanned) => json!({
            "from": areas.name(answer.pair.from),
            "to": areas.name(answer.pair.to),
            "unplanned": unplanned,
            "why": unplanned.to_string(),
        }),
    });
    json!({ "paths": paths.collect::<Vec<_>>() })
}

fn show(areas: &Areas, answers: &[PlannedPath], explain: bool, output: Output) {
    let header = ["from", "to", "cost", "way"].map(str::to_owned);
    let rows = answers.iter().map(|answer| {
        let from = areas.name(answer.pair.from).to_owned();
        let to = areas.name(answer.pair.to).to_owned();
        match &answer.plan {
            Ok(plan) => vec![from, to, plan.cost.to_string(), way(plan)],
            Err(unplanned) => vec![from, to, table::NOTHING.to_owned(), unplanned.to_string()],
        }
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output.line(table::fitted(&header, &rows, output.width()));
    if explain {
        let plans = answers
            .iter()
            .filter_map(|answer| answer.plan.as_ref().ok());
        plans.for_each(|plan| explained(plan, output));
    }
}

/// `amc[allow-ports] > hub[scan encrypt] > umc`.
fn way(plan: &Plan) -> String {
    let stops = plan.stops.iter().map(|stop| {
        let names: Vec<&str> = stop
            .functions
            .iter()
            .map(|step| step.function.as_str())
            .collect();
        match names.is_empty() {
            true => stop.place.clone(),
            false => format!("{}[{}]", stop.place, names.join(" ")),
        }
    });
    stops.collect::<Vec<_>>().join(" > ")
}

fn explained(plan: &Plan, output: Output) {
    output.line(format!(
        "\n{} to {}, {} in all:",
        plan.from, plan.to, plan.cost
    ));
    if plan.steps().count() == 0 {
        output.line("  it lacks nothing, and passes no function");
    }
    for stop in &plan.stops {
        for step in &stop.functions {
            output.line(format!(
                "  {} at {} gives `{}` for {}",
                step.function,
                stop.place,
                step.adds.join("`, `"),
                step.cost
            ));
        }
    }
}

/// Writes the documents, over those of an earlier plan only.
fn write(folder: &Path, documents: &[PlaceDocument]) -> Result<(), Failure> {
    for document in documents {
        let path = folder.join(format!("{}.areas.yaml", document.place));
        let failed = |error| Failure::failed(format!("{}: {error}", path.display()));
        let is_ours = match fs::read_to_string(&path) {
            Ok(present) => present.starts_with(MADE),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_ours {
            let reason = format!("{} was not made by this command", path.display());
            return Err(Failure::failed(reason).remedy("move it away"));
        }
        fs::write(&path, format!("{MADE}{}", document.yaml())).map_err(failed)?;
        note(format_args!(
            "{}: include it in the file of the node at {}",
            path.display(),
            document.place
        ));
    }
    Ok(())
}
