//! `hermes netcheck [FILE|HOST:PORT]..`: what this machine allows, what paths carry, and what would mend what is missing.
//!
//! Everything is found out by trying it, as this user and in this network namespace: see [`hermes_net::machine`] and
//! [`hermes_node::trial::measure_path`]. No other program is run.

mod capture;
mod remedy;

use std::net::{SocketAddr, SocketAddrV6};
use std::path::Path;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use hermes_config::model::{EndpointAddress, HostPort, zone_index};
use hermes_net::machine::{Feature, Missing};
use hermes_net::{Resolver, own_mark};
use hermes_node::trial::{PathReport, measure_path};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Colour, Output};
use capture::CaptureFinding;
use remedy::Situation;

/// Arguments of `hermes netcheck`.
#[derive(Debug, Args)]
pub struct Netcheck {
    /// Paths to try: a server, as HOST:PORT, or all endpoints of a configuration.
    #[arg(value_name = "FILE|HOST:PORT")]
    paths: Vec<String>,
    /// Fail unless all of these work, e.g. `tun,netlink-change`; `path` is every path that is tried.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    require: Vec<Requirement>,
    /// Moves into the network of a captured program, and ends: what this command runs to try that.
    #[arg(long, hide = true)]
    in_captured_network: bool,
}

/// A requirement of `--require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requirement {
    Feature(Feature),
    /// `hermes exec --capture`.
    Capture,
    /// QUIC, or at least TCP, reaches every server.
    Path,
}

impl Requirement {
    const ALL: [Self; Feature::ALL.len() + 2] = {
        let mut all = [Self::Path; Feature::ALL.len() + 2];
        all[Feature::ALL.len()] = Self::Capture;
        let mut at = 0;
        while at < Feature::ALL.len() {
            all[at] = Self::Feature(Feature::ALL[at]);
            at += 1;
        }
        all
    };
}

impl ValueEnum for Requirement {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Feature(feature) => PossibleValue::new(words(*feature).0),
            Self::Capture => PossibleValue::new("capture"),
            Self::Path => {
                PossibleValue::new("path").help("QUIC, or at least TCP, reaches every server")
            }
        })
    }
}

/// The word of a feature in options and JSON, and its purpose.
fn words(feature: Feature) -> (&'static str, &'static str) {
    match feature {
        Feature::Tun => ("tun", "TUN devices"),
        Feature::TunOffload => ("tun-offload", "uncut packets at TUN devices"),
        Feature::Netlink => ("netlink", "asking for addresses and routes"),
        Feature::NetlinkChange => ("netlink-change", "changing addresses and routes"),
        Feature::Masquerade => (
            "masquerade",
            "tunnels that leave with this machine's addresses",
        ),
        Feature::Mark => ("mark", "keeping the node's own traffic out of its TUN"),
        Feature::Cgroups => ("cgroups", "a TUN for some programs only"),
        Feature::Echo => ("echo", "forwarding pings that are intercepted"),
        Feature::Tproxy => (
            "tproxy",
            "capture, and connections to the addresses of others",
        ),
        Feature::Udp => ("udp", "UDP without loss in bursts"),
        Feature::Http3 => ("http3", "QUIC"),
        Feature::Gso => ("gso", "sending many datagrams at once"),
        Feature::Gro => ("gro", "receiving many datagrams at once"),
        Feature::Ktls => ("ktls", "TLS records by the kernel"),
    }
}

/// One thing that was tried.
struct FeatureFinding {
    feature: Feature,
    outcome: Result<String, (Missing, Vec<String>)>,
}

/// One path that was tried.
struct PathFinding {
    /// As it was written.
    server: String,
    outcome: Result<PathReport, String>,
}

impl PathFinding {
    fn works(&self) -> bool {
        self.outcome
            .as_ref()
            .is_ok_and(|report| report.tcp.is_ok() || report.quic.is_ok())
    }
}

/// Tries everything, and prints the results.
///
/// # Errors
/// A file is not valid; or something that is required does not work.
pub async fn run(netcheck: &Netcheck, output: Output) -> Result<(), Failure> {
    if netcheck.in_captured_network {
        return capture::enter();
    }
    let servers = servers(&netcheck.paths)?;
    let situation = Situation::of_this_process();

    let mut features = Vec::new();
    for feature in Feature::ALL {
        let tried = feature.try_out();
        let outcome = tried.map_err(|missing| {
            let lines = remedy::lines(feature, &missing, &situation);
            (missing, lines)
        });
        features.push(FeatureFinding { feature, outcome });
    }

    let captured = capture::try_out();
    if !output.json {
        show_features(&features, &situation, output);
        show_capture(&captured, output);
    }
    let mut paths = Vec::new();
    for server in servers {
        let finding = try_path(server).await;
        if !output.json {
            show_path(&finding, output);
        }
        paths.push(finding);
    }

    if output.json {
        output.value(&as_json(&features, &captured, &paths, &situation));
    }
    let needs_capture = netcheck.require.contains(&Requirement::Capture);
    let captures = captured.works() || !needs_capture;
    if captures && meets(&netcheck.require, &features, &paths) {
        Ok(())
    } else {
        Err(Failure::told(1))
    }
}

fn meets(required: &[Requirement], features: &[FeatureFinding], paths: &[PathFinding]) -> bool {
    let lacks = features.iter().any(|finding| {
        finding.outcome.is_err() && required.contains(&Requirement::Feature(finding.feature))
    });
    let unreached = required.contains(&Requirement::Path) && !paths.iter().all(PathFinding::works);
    !lacks && !unreached
}

/// The servers that are meant, each once.
fn servers(words: &[String]) -> Result<Vec<HostPort>, Failure> {
    let mut servers: Vec<HostPort> = Vec::new();
    for word in words {
        let file = Path::new(word);
        let found = match word.parse() {
            Ok(server) if !file.exists() => vec![server],
            _ => endpoints(file)?,
        };
        for server in found {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    Ok(servers)
}

/// The endpoints of all upstreams of a file that are reached over IP.
fn endpoints(file: &Path) -> Result<Vec<HostPort>, Failure> {
    let loaded = super::load(file)?;
    let upstreams = loaded.document.upstreams.values();
    let endpoints = upstreams.flat_map(|upstream| &upstream.endpoints);
    let servers = endpoints.filter_map(|endpoint| match endpoint.address() {
        EndpointAddress::Tcp(server) => Some(server.clone()),
        EndpointAddress::Unix(_) => None,
    });
    Ok(servers.collect())
}

async fn try_path(server: HostPort) -> PathFinding {
    // Past the TUN device of a node on this machine, as the node's own sockets. Without the right to mark sockets there is no such device.
    let _ = own_mark::begin();
    let outcome = match resolve(&server).await {
        Ok(address) => Ok(measure_path(address).await),
        Err(reason) => Err(reason),
    };
    PathFinding {
        server: server.to_string(),
        outcome,
    }
}

/// The address that is tried: the first of the name.
async fn resolve(server: &HostPort) -> Result<SocketAddr, String> {
    if let (host, Some(zone)) = server.zoned() {
        let index = zone_index(zone).ok_or_else(|| format!("there is no interface {zone}"))?;
        let address = host
            .parse()
            .map_err(|_| format!("{host} is not an address"))?;
        return Ok(SocketAddrV6::new(address, server.port, 0, index).into());
    }

    let resolver = Resolver::system();
    let found = resolver.lookup_endpoint(&server.host).await;
    let addresses = found.map_err(|error| error.to_string())?.addresses;
    let first = addresses.first().ok_or("no address")?;
    Ok(SocketAddr::new(*first, server.port))
}

fn show_features(findings: &[FeatureFinding], situation: &Situation, output: Output) {
    output.line(format_args!("as {situation}:"));
    for finding in findings {
        let (name, purpose) = words(finding.feature);
        match &finding.outcome {
            Ok(detail) => line(output, Colour::Good, name, &format!("{purpose}: {detail}")),
            Err((missing, remedies)) => {
                line(output, Colour::Bad, name, &format!("{purpose}: {missing}"));
                for remedy in remedies {
                    output.line(format_args!("{:24}{remedy}", ""));
                }
            }
        }
    }
}

fn show_capture(finding: &CaptureFinding, output: Output) {
    let colour = match finding.works() {
        true => Colour::Good,
        false => Colour::Bad,
    };
    let (said, remedies) = finding.said();
    line(output, colour, finding.name(), &said);
    for remedy in remedies {
        output.line(format_args!("{:24}{remedy}", ""));
    }
}

/// A line about a feature or a path.
fn line(output: Output, colour: Colour, name: &str, said: &str) {
    let word = match colour {
        Colour::Good => "ok     ",
        Colour::Bad => "MISSING",
    };
    let word = output.paint(colour, word);
    output.line(format_args!("{word} {name:15} {said}"));
}

fn show_path(finding: &PathFinding, output: Output) {
    let colour = match finding.works() {
        true => Colour::Good,
        false => Colour::Bad,
    };
    let said = match &finding.outcome {
        Ok(report) => spoken(report),
        Err(reason) => reason.clone(),
    };
    line(
        output,
        colour,
        "path",
        &format!("{}: {said}", finding.server),
    );
    if let Ok(report) = &finding.outcome {
        for remedy in remedy::path_lines(report) {
            output.line(format_args!("{:24}{remedy}", ""));
        }
    }
}

/// The findings about a path, in words.
fn spoken(report: &PathReport) -> String {
    let tcp = match &report.tcp {
        Ok(time) => format!("TCP in {}", milliseconds(*time)),
        Err(error) => format!("no TCP ({error})"),
    };
    let quic = match &report.quic {
        Ok(answer) => format!(
            "QUIC in {}, {}, packets of {} bytes arrive",
            milliseconds(answer.time),
            versions(&answer.versions).join(" "),
            answer.mtu
        ),
        Err(error) => format!("no QUIC ({error})"),
    };
    let route = match report.route_mtu {
        Some(mtu) => format!(", the route has an MTU of {mtu}"),
        None => String::new(),
    };
    format!("{}: {tcp}, {quic}{route}", report.address)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", 1000.0 * time.as_secs_f64())
}

/// Versions of QUIC as people call them. Versions reserved to be ignored are left out (RFC 9000, 15).
fn versions(numbers: &[u32]) -> Vec<String> {
    let is_reserved = |number: &u32| number & 0x0f0f_0f0f == 0x0a0a_0a0a;
    let real = numbers.iter().filter(|number| !is_reserved(number));
    real.map(|number| match *number {
        hermes_proto::quic_version::VERSION_1 => "version 1".to_owned(),
        hermes_proto::quic_version::VERSION_2 => "version 2".to_owned(),
        other => format!("version {other:#010x}"),
    })
    .collect()
}

fn as_json(
    features: &[FeatureFinding],
    captured: &CaptureFinding,
    paths: &[PathFinding],
    situation: &Situation,
) -> Value {
    let features = features.iter().map(|finding| {
        let (name, purpose) = words(finding.feature);
        match &finding.outcome {
            Ok(detail) => json!({ "name": name, "for": purpose, "works": true, "found": detail }),
            Err((missing, remedies)) => json!({
                "name": name, "for": purpose, "works": false,
                "error": missing.to_string(), "remedy": remedies,
            }),
        }
    });
    let features: Vec<Value> = features.chain([captured.as_json()]).collect();
    let paths: Vec<Value> = paths.iter().map(path_json).collect();

    json!({ "as": situation.to_string(), "features": features, "paths": paths })
}

fn path_json(finding: &PathFinding) -> Value {
    let report = match &finding.outcome {
        Ok(report) => report,
        Err(reason) => {
            return json!({ "server": finding.server, "works": false, "error": reason });
        }
    };

    let tcp = match &report.tcp {
        Ok(time) => json!({ "works": true, "seconds": time.as_secs_f64() }),
        Err(error) => json!({ "works": false, "error": error.to_string() }),
    };
    let quic = match &report.quic {
        Ok(answer) => json!({
            "works": true, "seconds": answer.time.as_secs_f64(),
            "versions": versions(&answer.versions), "mtu": answer.mtu,
        }),
        Err(error) => json!({ "works": false, "error": error.to_string() }),
    };
    json!({
        "server": finding.server, "address": report.address.to_string(), "works": finding.works(),
        "tcp": tcp, "quic": quic, "route_mtu": report.route_mtu, "remedy": remedy::path_lines(report),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use hermes_net::machine::MissingReason;

    use super::*;

    fn lacking(feature: Feature) -> FeatureFinding {
        let missing = Missing {
            step: "a step",
            reason: MissingReason::Refused(io::ErrorKind::PermissionDenied.into()),
        };
        FeatureFinding {
            feature,
            outcome: Err((missing, Vec::new())),
        }
    }

    #[test]
    fn only_what_is_required_makes_it_fail() {
        let features = [lacking(Feature::Ktls)];
        assert!(meets(&[], &features, &[]));
        assert!(meets(
            &[Requirement::Feature(Feature::Tun), Requirement::Path],
            &features,
            &[]
        ));
        assert!(!meets(
            &[Requirement::Feature(Feature::Ktls)],
            &features,
            &[]
        ));

        let unknown = PathFinding {
            server: "nowhere:1".to_owned(),
            outcome: Err("no such name".to_owned()),
        };
        assert!(meets(&[], &[], std::slice::from_ref(&unknown)));
        assert!(!meets(&[Requirement::Path], &[], &[unknown]));
    }

    #[test]
    fn every_feature_can_be_required_by_its_name() {
        for feature in Feature::ALL {
            let required = Requirement::from_str(words(feature).0, false).unwrap();
            assert_eq!(required, Requirement::Feature(feature));
        }
    }

    #[test]
    fn versions_have_names_and_reserved_ones_are_left_out() {
        assert_eq!(
            versions(&[1, 0x6b33_43cf, 0x1a2a_3a4a, 0xff00_001d]),
            ["version 1", "version 2", "version 0xff00001d"]
        );
    }
}
