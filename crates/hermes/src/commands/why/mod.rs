//! `hermes why FILE GET http://VIDEO/one`: what a node with this file would decide about an exchange, step by step.

mod question;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use hermes_config::model::{Action, Document, Terminate};
use hermes_config::{Loaded, Places, Problem};
use hermes_rules::judge::{
    Arrived, Authenticated, Entrance, Judged, Step, Unrouted, listener_user,
};
use hermes_rules::route::Hop;
use hermes_rules::{EgressRules, Rules, chains, ends, lint};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table::wrapped;
use question::{FieldLine, Question};

/// Where the supposed connection comes from, but for its address.
const CLIENT_PORT: u16 = 50_000;

/// Columns before what a step says.
const INDENT: usize = 11;

/// Arguments of `hermes why`.
#[derive(Debug, Args)]
pub struct Why {
    /// Configuration of the node.
    file: PathBuf,
    /// What the exchange asks for: a URL, a method and a URL, or CONNECT, CONNECT-TCP or CONNECT-UDP and host:port. None for
    /// a `tcp` or `udp` listener.
    #[arg(num_args = 0..=2, value_name = "METHOD TARGET")]
    words: Vec<String>,
    /// Listener where it enters. Default: the first for HTTP.
    #[arg(long)]
    listener: Option<String>,
    /// User whom authentication found.
    #[arg(long)]
    user: Option<String>,
    /// Peer that hands it over, by its name in `peers`.
    #[arg(long)]
    peer: Option<String>,
    /// Address of its client.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    source: IpAddr,
    /// A field of it, `name: value`.
    #[arg(short = 'H', long = "field", value_name = "NAME: VALUE")]
    fields: Vec<FieldLine>,
}

/// What came of it.
struct Decided {
    question: String,
    listener: String,
    steps: Vec<Step>,
    outcome: Result<Routed, String>,
}

/// The route, and whose the exchange is.
struct Routed {
    user: Option<String>,
    route: String,
    /// Where an address is checked that the request chose; nothing where the operator wrote it.
    egress: Option<Result<String, String>>,
}

/// Decides about the exchange as a node would, without its filters, and shows each step with the line that says so.
///
/// # Errors
/// With exit code 2 if the file is not valid or the question is none, with 1 if the exchange is refused.
pub fn run(why: &Why, output: Output) -> Result<(), Failure> {
    let Loaded {
        mut document,
        places,
        ..
    } = sound(super::load(&why.file), output)?;
    ends::expand(&mut document);
    chains::expand(&mut document);

    let decided = decide(why, &document).map_err(Failure::invalid)?;
    if output.json {
        output.value(&as_json(&decided, &places));
    } else {
        show(&decided, &places, output);
    }

    match &decided.outcome {
        Ok(Routed {
            egress: None | Some(Ok(_)),
            ..
        }) => Ok(()),
        _ => Err(Failure::told(1)),
    }
}

/// A file that lint finds sound; the files that it names need not be here.
fn sound(
    loaded: Result<Loaded, hermes_config::Problems>,
    output: Output,
) -> Result<Loaded, Failure> {
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

fn decide(why: &Why, document: &Document) -> Result<Decided, String> {
    let (name, config) = question::listener(document, why.listener.as_deref())?;
    let question = match Question::of_listener(config).filter(|_| why.words.is_empty()) {
        Some(question) => question,
        None => Question::parse(&why.words)?,
    };

    let found = |hop: Hop<'_>| match hop {
        Hop::Proxy(name) | Hop::Origin(name) | Hop::Handler(name) => name.to_owned(),
        Hop::Target => "(target)".to_owned(),
    };

    let node = document.node.clone().unwrap_or_else(|| "hermes".to_owned());
    let rules = Rules::compile(document, node.into(), |_, hop| Some(found(hop)))
        .map_err(|unfit| unfit.to_string())?;

    let user = listener_user(document, config);
    let source = question::source(&rules.peers, why.peer.as_deref(), config, why.source)?;
    let arrived = Arrived {
        entrance: Entrance {
            name,
            config,
            user: user.as_deref(),
        },
        source,
        authenticated: Authenticated {
            user: why.user.as_deref(),
            by_certificate: false,
        },
        kind: question.kind(),
        target: question.target(),
        target_host: &question.target.host,
        authority: question.authority(),
        method: &question.method,
        path: &question.path,
        protocol: question.protocol,
        peer: Some(SocketAddr::new(why.source, CLIENT_PORT)),
        tls_peer: why.peer.as_deref(),
    };

    let mut steps = Vec::new();
    let judged = rules.judge(&arrived, question::fields(&why.fields), &mut steps);
    Ok(Decided {
        question: question.describe(),
        listener: name.to_owned(),
        outcome: outcome(judged, document, &question),
        steps,
    })
}

fn outcome(
    judged: Result<Judged<String>, Unrouted>,
    document: &Document,
    question: &Question,
) -> Result<Routed, String> {
    let Judged { user, route, .. } = judged.map_err(|unrouted| unrouted.to_string())?;
    let chosen = matches!(
        route.config.action(),
        Some(Action::Terminate(Terminate::Target(_)))
    );
    let rewritten = route
        .config
        .rewrite
        .as_ref()
        .and_then(|rewrite| rewrite.target.as_ref());
    let target = rewritten.unwrap_or(&question.target);

    Ok(Routed {
        user,
        route: route.name.to_string(),
        egress: chosen.then(|| egress(document, &target.host, target.port)),
    })
}

/// What the egress rules say of an address that the request chose.
fn egress(document: &Document, host: &str, port: u16) -> Result<String, String> {
    let Ok(ip) = host.parse::<IpAddr>() else {
        return Ok(format!(
            "checked for each address of {host}, once it is known"
        ));
    };

    let rules = EgressRules::compile(&document.egress, &[]);
    let address = SocketAddr::new(ip, port);
    let checked = rules.check(address, |_| ip.is_loopback());

    checked
        .map(|()| format!("{address} may be chosen"))
        .map_err(|denied| denied.to_string())
}

/// Where a step is written, as `node.yaml:12`.
fn place(places: &Places, path: &str) -> Option<String> {
    let place = places.locate(&places.origin_of(path))?;
    let file = place.file.file_name()?.to_string_lossy();
    Some(format!("{file}:{}", place.line))
}

fn show(decided: &Decided, places: &Places, output: Output) {
    output.line(format_args!(
        "{} at listener {}",
        decided.question, decided.listener
    ));
    for step in &decided.steps {
        let place = place(places, &step.path).unwrap_or_else(|| "default".to_owned());
        let text = format!("{} ({}, {place})", step.said, step.path);
        paragraph(step.phase.word(), &text, output);
    }

    match &decided.outcome {
        Ok(routed) => {
            match &routed.egress {
                Some(Ok(said)) => paragraph("egress", said, output),
                Some(Err(denied)) => {
                    let text = format!("{} {denied}", output.paint(Colour::Bad, "denied:"));
                    paragraph("egress", &text, output);
                    return;
                }
                None => {}
            }

            let user = routed.user.as_deref().unwrap_or("no user");
            let text = format!("route {}, as {user}", routed.route);
            paragraph("so", &output.paint(Colour::Good, &text), output);
        }
        Err(reason) => paragraph("so", &output.paint(Colour::Bad, reason), output),
    }
}

/// A word, and what is said beside it, in the width of the terminal.
fn paragraph(word: &str, text: &str, output: Output) {
    let lines = wrapped(text, INDENT, output.width().unwrap_or(usize::MAX));
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        let word = if number == 0 { word } else { "" };
        output.line(format_args!("  {word:<9}{line}"));
    }
}

fn as_json(decided: &Decided, places: &Places) -> Value {
    let step = |step: &Step| {
        json!({
            "phase": step.phase.word(),
            "path": step.path,
            "place": place(places, &step.path),
            "said": step.said,
        })
    };

    let routed = decided.outcome.as_ref().ok();
    let egress = routed.and_then(|routed| routed.egress.as_ref());
    json!({
        "question": decided.question,
        "listener": decided.listener,
        "steps": decided.steps.iter().map(step).collect::<Vec<_>>(),
        "user": routed.and_then(|routed| routed.user.as_ref()),
        "route": routed.map(|routed| &routed.route),
        "egress": egress.map(|said| said.as_ref().unwrap_or_else(|denied| denied)),
        "allowed": routed.is_some() && !matches!(egress, Some(Err(_))),
        "refused": decided.outcome.as_ref().err(),
    })
}
