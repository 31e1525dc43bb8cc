//! `hermes trace NAME`: the way of one real exchange to a name, and the decision of each node.

use std::time::Duration;

use clap::Args;
use hermes_control::service::Inquiry;
use hermes_proto::hop_report::ReportedHop;
use serde_json::{Value, json};

use super::probe::{ProbeAnswer, Proxy};
use super::{Stop, milliseconds, ping, stop_in};
use crate::commands::env::Source;
use crate::commands::overlay::explain;
use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table::short_time;

/// Arguments of `hermes trace`.
#[derive(Debug, Args)]
pub struct Trace {
    /// The target: NAME, NAME:PORT, a URL, or a method and a URL. The server gets this exchange; of NAME:PORT a connection, which
    /// is closed at once.
    #[arg(value_name = "NAME | METHOD NAME", num_args = 1..=2, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    patience: super::Patience,
    #[command(flatten)]
    source: Source,
}

/// Sends one exchange, and prints the decision of each node on its way.
///
/// # Errors
/// With exit code 2 if the exchange is none, with 3 if the node beside the user cannot be reached, with 1 if it did not reach a server.
pub async fn run(trace: &Trace, output: Output) -> Result<(), Failure> {
    let asked = explain::inquiry(&trace.words)?;
    let proxy = Proxy::new(trace.source.proxy().await?, trace.patience.timeout)?;
    let answer = proxy.exchange(&asked).await?;
    let (answer, stop) = match answer {
        Ok(answer) => {
            let stop = stop_in(&answer.hops);
            (Some(answer), stop)
        }
        // No node said how far it came.
        Err(lost) => {
            let stop = ping::how_far(&proxy, &asked).await?;
            (None, stop.or_else(|| Some(Stop::here(lost.reason()))))
        }
    };

    if output.json {
        output.value(&as_json(&asked, &proxy, answer.as_ref(), stop.as_ref()));
    } else {
        show(&asked, &proxy, answer.as_ref(), stop.as_ref(), output);
    }
    match stop {
        None => Ok(()),
        Some(_) => Err(Failure::told(1)),
    }
}

/// The time that a node took besides that of the nodes behind it.
fn own(hops: &[ReportedHop], index: usize) -> Option<Duration> {
    let took = hops[index].report.took?;
    let behind = hops.get(index + 1).and_then(|next| next.report.took);
    Some(took.saturating_sub(behind?))
}

fn as_json(
    asked: &Inquiry,
    proxy: &Proxy,
    answer: Option<&ProbeAnswer>,
    stop: Option<&Stop>,
) -> Value {
    let hops = answer.map_or(&[][..], |answer| &answer.hops);
    let one = |index: usize| {
        let ReportedHop { node, report, .. } = &hops[index];
        json!({
            "node": node,
            "rule": report.rule,
            "route": report.route,
            "next": report.next_hop,
            "end": report.is_end,
            "attempts": report.attempts.unwrap_or(1),
            "took_ms": report.took.map(milliseconds),
            "own_ms": own(hops, index).map(milliseconds),
        })
    };
    json!({
        "method": asked.method,
        "target": format!("{}:{}", asked.host, asked.port),
        "by": proxy.url,
        "status": answer.map(|answer| answer.status.as_u16()),
        "took_ms": answer.map(|answer| milliseconds(answer.took)),
        "hops": (0..hops.len()).map(one).collect::<Vec<_>>(),
        "stopped": stop.map(Stop::json),
    })
}

fn show(
    asked: &Inquiry,
    proxy: &Proxy,
    answer: Option<&ProbeAnswer>,
    stop: Option<&Stop>,
    output: Output,
) {
    let question = format!(
        "{} {}:{} by {}",
        asked.method, asked.host, asked.port, proxy.url
    );
    let Some(answer) = answer else {
        output.line(question);
        if let Some(stop) = stop {
            output.line(output.paint(Colour::Bad, &stop.line()));
        }
        return;
    };
    let status = answer.status.as_u16();
    output.line(format_args!(
        "{question}: {status} after {}",
        short_time(answer.took)
    ));
    for (index, hop) in answer.hops.iter().enumerate() {
        output.line(format_args!(
            "  {}: {}",
            hop.node,
            said(&answer.hops, index)
        ));
    }
    match stop {
        Some(stop) => output.line(output.paint(Colour::Bad, &stop.line())),
        None => output.line(output.paint(Colour::Good, &reached(asked, answer))),
    }
}

/// The decision of a node, in a line.
fn said(hops: &[ReportedHop], index: usize) -> String {
    let report = &hops[index].report;
    let mut parts = Vec::new();
    let named = [
        ("rule", &report.rule),
        ("route", &report.route),
        ("to", &report.next_hop),
    ];
    for (word, name) in named {
        parts.extend(name.as_ref().map(|name| format!("{word} {name}")));
    }
    if let Some(attempts) = report.attempts {
        parts.push(format!("{attempts} attempts"));
    }
    match (report.took, own(hops, index)) {
        (Some(took), Some(own)) => {
            let took = short_time(took);
            let own = short_time(own);
            parts.push(format!("{took}, {own} without the nodes behind"));
        }
        (Some(took), None) => parts.push(short_time(took)),
        (None, _) => {}
    }
    if let Some(failure) = &hops[index].failure {
        parts.push(failure.error.token().to_owned());
    }
    parts.join(", ")
}

fn reached(asked: &Inquiry, answer: &ProbeAnswer) -> String {
    let server = answer
        .hops
        .last()
        .and_then(|hop| hop.report.next_hop.as_deref());
    let server = server.unwrap_or("the server");
    match asked.method.as_str() {
        "CONNECT" => format!("connected to {server}, and closed"),
        _ => format!("{server} answered with {}", answer.status.as_u16()),
    }
}
