//! `hermes ping NAME`: how far each node on the way to a name is.

use std::time::Duration;

use clap::Args;
use hermes_control::service::Inquiry;
use hermes_proto::hop_report::ReportedHop;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::probe::{ProbeAnswer, Proxy, Unanswered};
use super::{MOST_HOPS, Stop, milliseconds, stop_in};
use crate::commands::env::Source;
use crate::commands::overlay::explain;
use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::table::{NOTHING, plain, short_time};

/// Times that a node may be asked by one command.
#[doc(alias = "bound")]
const MOST_TIMES: u32 = 1000;

/// Time between two rounds.
const BETWEEN: Duration = Duration::from_millis(250);

/// Arguments of `hermes ping`.
#[derive(Debug, Args)]
pub struct Ping {
    /// The name: NAME, NAME:PORT or a URL. The nodes on the way are asked, the server behind them is not.
    #[arg(value_name = "NAME")]
    target: String,
    /// How often each node is asked.
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_TIMES)))]
    count: u32,
    #[command(flatten)]
    patience: super::Patience,
    #[command(flatten)]
    source: Source,
}

/// One node of the way, and how far it is.
#[derive(Debug)]
struct Measured {
    hop: ReportedHop,
    sent: u32,
    /// In the order in which the answers came.
    times: Vec<Duration>,
    /// Why the last lost question was lost.
    lost: Option<String>,
}

/// Asks every node of the way in turn, and prints how long each takes.
///
/// # Errors
/// With exit code 2 if the name is none, with 3 if the node beside the user cannot be reached, with 1 if the way ends before the last
/// node, or that one did not answer.
pub async fn run(ping: &Ping, output: Output) -> Result<(), Failure> {
    let asked = explain::inquiry(std::slice::from_ref(&ping.target))?;
    let proxy = Proxy::new(ping.source.proxy().await?, ping.patience.timeout)?;
    let (mut way, mut stop) = walk(&proxy, &asked).await?;

    // The first walk opens the links between the nodes, and is not counted.
    for round in 0..ping.count {
        if round > 0 {
            sleep(BETWEEN).await;
        }
        for (index, node) in way.iter_mut().enumerate() {
            node.add(proxy.knock(&asked, index).await?);
        }
    }
    let last = way.last().filter(|node| node.times.is_empty());
    if let (None, Some(last)) = (&stop, last) {
        let reason = last.lost.clone().unwrap_or_default();
        stop = Some(Stop::at(&last.hop.node, reason));
    }

    if output.json {
        output.value(&as_json(&asked, &proxy, &way, stop.as_ref()));
    } else {
        show(&asked, &proxy, &way, stop.as_ref(), output);
    }
    match stop {
        None => Ok(()),
        Some(_) => Err(Failure::told(1)),
    }
}

/// Asks one node after the other until the overlay ends; the nodes, and why the way leads no further.
async fn walk(proxy: &Proxy, asked: &Inquiry) -> Result<(Vec<Measured>, Option<Stop>), Failure> {
    let mut way: Vec<Measured> = Vec::new();
    while way.len() < MOST_HOPS {
        let answer = match proxy.knock(asked, way.len()).await? {
            Ok(answer) => answer,
            Err(lost) => {
                let stop = behind(&way, lost);
                return Ok((way, Some(stop)));
            }
        };
        let stop = stop_in(&answer.hops);
        let last = answer.hops.last();
        let is_new = answer.hops.len() > way.len();
        match (last, &stop) {
            // A node that refuses is named by the reason, and not measured: it answers so to everything.
            (Some(last), None) if is_new => way.push(Measured::new(last.clone())),
            (_, Some(_)) => return Ok((way, stop)),
            (_, None) => return Ok((way, Some(silent(&answer)))),
        }
        if way.last().is_some_and(|node| node.hop.report.is_end) {
            return Ok((way, None));
        }
    }
    Ok((way, Some(Stop::here("the way has too many nodes"))))
}

/// Someone further on answered, and does not say who.
fn silent(answer: &ProbeAnswer) -> Stop {
    let reason = format!(
        "the next hop answered with {} and reports nothing: it is no node of an overlay, or the user asked too often",
        answer.status.as_u16()
    );
    match answer.hops.last() {
        Some(last) => Stop::at(&last.node, reason),
        None => Stop::here(reason),
    }
}

/// No answer came, from behind these nodes.
fn behind(way: &[Measured], lost: Unanswered) -> Stop {
    match way.last() {
        Some(last) => Stop::at(&last.hop.node, format!("{} from behind it", lost.reason())),
        None => Stop::here(lost.reason()),
    }
}

/// How far exchanges come, for one that was not answered.
pub(super) async fn how_far(proxy: &Proxy, asked: &Inquiry) -> Result<Option<Stop>, Failure> {
    let (way, stop) = walk(proxy, asked).await?;
    Ok(match (stop, way.last()) {
        (Some(stop), _) => Some(stop),
        (None, Some(last)) => {
            let server = last.hop.report.next_hop.as_deref().unwrap_or(NOTHING);
            let reason = format!("no answer in time from {server}; the nodes up to here answer");
            Some(Stop::at(&last.hop.node, reason))
        }
        (None, None) => None,
    })
}

impl Measured {
    fn new(hop: ReportedHop) -> Self {
        Self {
            hop,
            sent: 0,
            times: Vec::new(),
            lost: None,
        }
    }

    fn add(&mut self, answer: Result<ProbeAnswer, Unanswered>) {
        self.sent += 1;
        match answer {
            Err(lost) => self.lost = Some(lost.reason().to_owned()),
            Ok(answer) => match answer.hops.iter().find_map(|hop| hop.failure.as_ref()) {
                Some(failure) => self.lost = Some(Stop::of(failure).reason),
                None => self.times.push(answer.took),
            },
        }
    }

    fn loss(&self) -> f64 {
        let received = u32::try_from(self.times.len()).unwrap_or(self.sent);
        match self.sent {
            0 => 0.0,
            sent => f64::from(sent - received) / f64::from(sent),
        }
    }

    /// Least, median and greatest time; `None` if no answer came.
    fn spread(&self) -> Option<[Duration; 3]> {
        let mut times = self.times.clone();
        times.sort_unstable();
        let median = *times.get(times.len() / 2)?;
        Some([*times.first()?, median, *times.last()?])
    }

    fn json(&self, number: usize) -> Value {
        let report = &self.hop.report;
        let [min, median, max] = match self.spread() {
            Some(spread) => spread.map(|time| json!(milliseconds(time))),
            None => [Value::Null, Value::Null, Value::Null],
        };
        json!({
            "hop": number + 1,
            "node": self.hop.node,
            "route": report.route,
            "next": report.next_hop,
            "end": report.is_end,
            "sent": self.sent,
            "received": self.times.len(),
            "loss": self.loss(),
            "min_ms": min,
            "median_ms": median,
            "max_ms": max,
            "lost": self.lost,
        })
    }
}

fn as_json(asked: &Inquiry, proxy: &Proxy, way: &[Measured], stop: Option<&Stop>) -> Value {
    let hops = way.iter().enumerate();
    json!({
        "target": format!("{}:{}", asked.host, asked.port),
        "by": proxy.url,
        "hops": hops.map(|(number, node)| node.json(number)).collect::<Vec<_>>(),
        "stopped": stop.map(Stop::json),
    })
}

fn show(asked: &Inquiry, proxy: &Proxy, way: &[Measured], stop: Option<&Stop>, output: Output) {
    output.line(format_args!(
        "{}:{} by {}",
        asked.host, asked.port, proxy.url
    ));
    let mut table = plain(&["HOP", "NODE", "NEXT", "LOSS", "MIN", "MEDIAN", "MAX"]);
    for (number, node) in way.iter().enumerate() {
        let spread = node.spread().map(|spread| spread.map(short_time));
        let [min, median, max] = spread.unwrap_or([NOTHING; 3].map(str::to_owned));
        let next = node.hop.report.next_hop.as_deref().unwrap_or(NOTHING);
        table.add_row([
            (number + 1).to_string(),
            node.hop.node.clone(),
            next.to_owned(),
            format!("{:.0} %", node.loss() * 100.0),
            min,
            median,
            max,
        ]);
    }
    if !way.is_empty() {
        output.line(table.trim_fmt());
    }
    match (stop, way.last()) {
        (Some(stop), _) => {
            output.line(output.paint(Colour::Bad, &stop.line()));
            if stop.is_denied() {
                output.line("ping asks by OPTIONS; hermes trace asks by the method that you name");
            }
        }
        (None, Some(last)) => output.line(format_args!(
            "the overlay ends at {}; hermes trace asks the server behind it",
            last.hop.node
        )),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use hermes_proto::hop_report::HopReport;

    use super::*;

    fn measured(times: &[u64], sent: u32) -> Measured {
        let hop = ReportedHop {
            node: "hub".to_owned(),
            report: HopReport::default(),
            failure: None,
        };
        Measured {
            sent,
            times: times.iter().copied().map(Duration::from_millis).collect(),
            ..Measured::new(hop)
        }
    }

    #[test]
    fn loss_and_times_are_of_the_answers() {
        let node = measured(&[9, 1, 4], 4);
        assert_eq!(node.spread(), Some([1, 4, 9].map(Duration::from_millis)));
        assert!((node.loss() - 0.25).abs() < f64::EPSILON);
        let silent = measured(&[], 2);
        assert_eq!(silent.spread(), None);
        assert!((silent.loss() - 1.0).abs() < f64::EPSILON);
        assert!(silent.json(0)["min_ms"].is_null());
    }
}
