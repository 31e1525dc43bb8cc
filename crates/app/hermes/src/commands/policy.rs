//! `hermes policy test FILE..`: whether policies decide as their tests say.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hermes_config::{Case, Cases, Expect, Places, element, read_cases};
use hermes_node::rehearsal::{Rehearsal, Rehearsed, Supposed};
use hermes_node::why::question::parse_time;
use hermes_rego::{Budget, RegoTest, run_tests, suppose_time};
use hermes_rules::Fields;
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};

/// Arguments of `hermes policy`.
#[derive(Debug, Args)]
pub struct Policy {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run tests: files of cases (.yaml), and rules in Rego whose names begin with `test_`, with the files that they test (.rego, .json).
    Test(Test),
}

#[derive(Debug, Args)]
struct Test {
    /// Files of cases, of rules and of data.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A test that ran.
struct Ran {
    name: String,
    /// `file:line`.
    place: String,
    failed: Option<String>,
}

/// Runs the tests.
///
/// # Errors
/// With exit code 2 if a file cannot be read, with 1 if a test fails.
pub async fn run(policy: &Policy, output: Output) -> Result<(), Failure> {
    let What::Test(test) = &policy.what;
    let is_cases = |file: &&PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("yaml" | "yml"))
    };

    let mut ran = Vec::new();
    for file in test.files.iter().filter(is_cases) {
        ran.extend(cases(file, output).await?);
    }
    let rego: Vec<_> = test.files.iter().filter(|file| !is_cases(file)).collect();
    if !rego.is_empty() {
        ran.extend(rego_tests(&rego)?);
    }

    show(&ran, output);
    if ran.is_empty() {
        Err(Failure::invalid("there is no test in these files"))
    } else if ran.iter().any(|test| test.failed.is_some()) {
        Err(Failure::told(1))
    } else {
        Ok(())
    }
}

fn rego_tests(files: &[&PathBuf]) -> Result<Vec<Ran>, Failure> {
    let mut texts = Vec::new();
    for file in files {
        let shown = file.display().to_string();
        let text = fs::read_to_string(file)
            .map_err(|error| Failure::invalid(format!("cannot read {shown}: {error}")))?;
        texts.push((shown, text));
    }

    // An evaluation has threads of its own, so nothing else waits here.
    let tests = run_tests(&texts, Budget::default()).map_err(|wrong| {
        let lines: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        Failure::invalid(lines.join("\n"))
    })?;
    let ran = |test: RegoTest| Ran {
        place: format!("{}:{}", test.file, test.line),
        name: test.rule,
        failed: test.failed,
    };
    Ok(tests.into_iter().map(ran).collect())
}

async fn cases(file: &Path, output: Output) -> Result<Vec<Ran>, Failure> {
    let problems = |problems: hermes_config::Problems| {
        if output.json {
            output.value(&problems);
        } else {
            problems.0.iter().for_each(|problem| output.line(problem));
        }
        Failure::told(2)
    };

    let read = read_cases(file, &|name| std::env::var(name).ok());
    let (Cases { config, cases }, places) = read.map_err(problems)?;
    let loaded = super::load(&config.0).map_err(problems)?;
    let rehearsal = Rehearsal::new(loaded).map_err(problems)?;

    let mut ran = Vec::new();
    for (index, case) in cases.into_iter().enumerate() {
        let failed = try_case(&rehearsal, &case).await.err();
        ran.push(Ran {
            place: place(&places, file, index),
            name: case.name,
            failed,
        });
    }

    // Tests in Rego have the time of the clock.
    suppose_time(None);
    Ok(ran)
}

fn place(places: &Places, file: &Path, index: usize) -> String {
    let line = places
        .locate(&element("cases", index))
        .map_or(1, |place| place.line);
    format!("{}:{line}", file.display())
}

/// # Errors
/// The difference from the expected decision.
async fn try_case(rehearsal: &Rehearsal, case: &Case) -> Result<(), String> {
    let source = case.source.as_deref().map(str::parse::<IpAddr>);
    let source = source
        .transpose()
        .map_err(|_| "`source` is not an address".to_owned())?;
    let supposed = Supposed {
        ask: case.ask.clone(),
        listener: case.listener.clone(),
        user: case.user.clone(),
        claim_groups: case.claim_groups.clone(),
        claims: case.claims.clone(),
        source,
        at: case.at.as_deref().map(parse_time).transpose()?,
        fields: fields(case)?,
    };

    // Cases are tried one after another.
    suppose_time(supposed.at);
    if let Some(judged) = rehearsal.judge_packet(&supposed)? {
        return compare_packet(&case.expect, judged.outcome);
    }
    let decided = rehearsal.decide(&supposed).await?;
    compare(&case.expect, &decided)
}

fn fields(case: &Case) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for (name, value) in &case.fields {
        let field: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not the name of a field"))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("`{name}` has bytes that a field may not have"))?;
        fields.append(&field, value);
    }
    Ok(fields)
}

/// A packet is allowed or not, by a rule; it has no route, and no answer.
fn compare_packet(expect: &Expect, outcome: Result<String, String>) -> Result<(), String> {
    let Expect {
        allow,
        reason,
        status,
        user,
        route,
        fields,
    } = expect;
    if status.is_some() || user.is_some() || route.is_some() || !fields.is_empty() {
        return Err("of a packet, `expect` has `allow` and `reason` only".to_owned());
    }

    let is_allowed = outcome.is_ok();
    let said = outcome.unwrap_or_else(|denied| denied);
    let is_met = is_allowed == *allow
        && reason
            .as_ref()
            .is_none_or(|part| said.contains(part.as_str()));
    if is_met { Ok(()) } else { Err(said) }
}

fn compare(expect: &Expect, decided: &Rehearsed) -> Result<(), String> {
    let described = match &decided.outcome {
        Ok(route) => format!("it takes the route {route}"),
        Err((status, reason)) => format!("it is refused with {status}: {reason}"),
    };
    let refusal = decided.outcome.as_ref().err();
    let status = refusal.map(|(status, _)| *status);
    let reason = refusal.map_or("", |(_, reason)| reason);

    let is_met = refusal.is_none() == expect.allow
        && (expect.status.is_none() || expect.status == status)
        && expect
            .reason
            .as_ref()
            .is_none_or(|part| reason.contains(part.as_str()));
    if !is_met {
        return Err(described);
    }

    if let Some(route) = &expect.route
        && decided.outcome.as_ref().ok() != Some(route)
    {
        return Err(described);
    }
    if let Some(user) = &expect.user
        && decided.user.as_ref() != Some(user)
    {
        let found = decided.user.as_deref().unwrap_or("no one");
        return Err(format!("it is {found}'s"));
    }

    for (name, wanted) in &expect.fields {
        let mut fields = decided.fields.iter();
        let found = fields.find(|(known, _)| known.as_str().eq_ignore_ascii_case(name));
        let found = found.map_or("", |(_, value)| value.to_str().unwrap_or("?"));
        if found != wanted {
            return Err(format!("the field {name} is `{found}`"));
        }
    }
    Ok(())
}

fn show(ran: &[Ran], output: Output) {
    if output.json {
        let tests = ran
            .iter()
            .map(|test| {
                json!({ "name": test.name, "place": test.place, "passed": test.failed.is_none(), "failed": test.failed })
            })
            .collect::<Vec<Value>>();
        output.value(&tests);
        return;
    }

    for Ran {
        name,
        place,
        failed,
    } in ran
    {
        match failed {
            None => output.line(format_args!("{}  {name}", output.paint(Colour::Good, "ok"))),
            Some(failed) => output.line(format_args!(
                "{}  {place}: {name}: {failed}",
                output.paint(Colour::Bad, "FAILED")
            )),
        }
    }
    let failed = ran.iter().filter(|test| test.failed.is_some()).count();
    output.line(format_args!(
        "{} passed, {failed} failed",
        ran.len() - failed
    ));
}
