//! What a node with a file would do.

use std::path::Path;

use hermes_config::model::Document;
use hermes_config::{Loaded, Problem, Problems};
use hermes_proxy::why::forecast::unasked;
use hermes_proxy::why::{Account, Filtered, FlowRego, Forecaster, SupposedExchange};
use hermes_rules::judge::{Arrived, Permitted, Step};
use hermes_rules::route::Hop;
use hermes_rules::{EgressRules, Matcher, Rules, chains, ends, lint};

use crate::failure::Failure;
use crate::output::Output;

/// What becomes of an exchange at a node with this file.
///
/// # Errors
/// The file is not valid, or the question is none.
pub fn account(
    file: &Path,
    supposed: &SupposedExchange,
    output: Output,
) -> Result<Account, Failure> {
    let Loaded {
        mut document,
        places,
        ..
    } = sound(super::super::load(file), output)?;
    ends::expand(&mut document);
    chains::expand(&mut document);

    let found = |hop: Hop<'_>| match hop {
        Hop::Proxy(name) | Hop::Origin(name) | Hop::Handler(name) => name.to_owned(),
        Hop::Target => "(target)".to_owned(),
    };
    let node = document.node.clone().unwrap_or_else(|| "hermes".to_owned());
    let rules = Rules::compile(&document, node.into(), |_, hop| Some(found(hop)))
        .map_err(|unfit| Failure::invalid(unfit.to_string()))?;

    let egress = EgressRules::compile(&document.egress, &[]);
    let flows = FlowRego::read(&document, &mut |_, _, _| {});
    let forecaster = Forecaster {
        rules: &rules,
        document: &document,
        places: Some(&places),
        flows: flows.as_deref(),
        may_choose: &|address| egress.check(address, |ip| ip.is_loopback()),
        endpoints: &|upstream| endpoints(&document, upstream),
    };

    forecaster
        .forecast(supposed, |filtering, permitted, steps| {
            filters(&document, &rules, (filtering.arrived, permitted), steps);
            Filtered { denied: None }
        })
        .map_err(Failure::invalid)
}

/// Which filters would be asked.
fn filters<H>(
    document: &Document,
    rules: &Rules<H>,
    (arrived, permitted): (&Arrived<'_>, &Permitted),
    steps: &mut Vec<Step>,
) {
    let facts = arrived.facts(permitted.user.as_deref(), &permitted.fields, &rules.aliases);
    for (index, filter) in document.authorize.iter().enumerate() {
        let matcher = Matcher::compile(&filter.matches, rules.names.clone());
        if matcher.matches(&facts) {
            steps.push(unasked(document, index, "; only a running node can"));
        }
    }
}

/// The endpoints that the file names.
fn endpoints(document: &Document, upstream: &str) -> Vec<String> {
    let upstream = document.upstreams.get(upstream);
    let endpoints = upstream
        .into_iter()
        .flat_map(|upstream| &upstream.endpoints);
    endpoints
        .map(|endpoint| format!("endpoint {}", endpoint.address()))
        .collect()
}

/// A file that lint finds sound; the files that it names need not be here.
fn sound(loaded: Result<Loaded, Problems>, output: Output) -> Result<Loaded, Failure> {
    let problems = match loaded {
        Ok(loaded) => {
            let findings = lint(&loaded.document);
            if findings.is_empty() {
                return Ok(loaded);
            }

            let at = |finding: hermes_rules::Finding| Problem {
                place: loaded.places.locate(&finding.path),
                path: finding.path,
                reason: finding.reason,
                remedy: finding.remedy,
            };

            findings.into_iter().map(at).collect()
        }
        Err(problems) => problems.0,
    };

    if output.json {
        output.value(&problems);
        return Err(Failure::told(2));
    }

    problems.iter().for_each(|problem| output.line(problem));
    Err(Failure::invalid("the file is not valid"))
}
