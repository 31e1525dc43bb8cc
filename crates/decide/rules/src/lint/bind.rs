//! Checks of sockets that wait for peers.

use std::net::IpAddr;
use std::time::Duration;

use hermes_config::model::{Document, Terminate};

use super::report::{Check, Report};

/// Ports that may be opened for connections of targets: each is tried until one is free.
#[doc(alias = "bound")]
const MOST_PORTS: u16 = 1024;

/// The longest time for which a port waits.
#[doc(alias = "bound")]
const LONGEST_WAIT: Duration = Duration::from_secs(600);

pub(super) const CHECKS: &[Check] = &[action, addresses, connections];

fn action(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        if route.bind.is_some() && !matches!(route.terminate, Some(Terminate::Target(true))) {
            let reason = "`bind` is for routes that end tunnels at their targets";
            report.add(
                format!("routes[{index}].bind"),
                reason,
                "remove it, or write `terminate: true`",
            );
        }
    }
}

fn addresses(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(bind) = &route.bind else { continue };
        let path = format!("routes[{index}].bind");
        let listen = parse(&format!("{path}.listen"), &bind.listen, report);

        if listen.is_empty() && bind.listen.is_empty() {
            report.add(
                format!("{path}.listen"),
                "there is no address",
                "give one, such as `192.0.2.45`",
            );
        }

        let Some(public) = &bind.public else { continue };
        let families =
            |addresses: &[IpAddr]| addresses.iter().map(IpAddr::is_ipv4).collect::<Vec<_>>();
        let public = parse(&format!("{path}.public"), public, report);

        if families(&public) != families(&listen) {
            let reason = "each address of `listen` needs one of its own family here";
            report.add(
                format!("{path}.public"),
                reason,
                "give as many as in `listen`, in the same order",
            );
        }
    }
}

fn connections(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(tcp) = route.bind.as_ref().and_then(|bind| bind.tcp.as_ref()) else {
            continue;
        };
        let path = format!("routes[{index}].bind.tcp");
        if tcp.ports.high - tcp.ports.low >= MOST_PORTS {
            report.add(
                format!("{path}.ports"),
                format!("`{}` is more than {MOST_PORTS} ports", tcp.ports),
                "write a smaller range, such as `40000-40099`",
            );
        }
        if let Some(wait) = tcp.wait
            && (wait.0.is_zero() || wait.0 > LONGEST_WAIT)
        {
            report.add(
                format!("{path}.wait"),
                format!("a port waits between 1ms and {} s", LONGEST_WAIT.as_secs()),
                "write a time such as `2m`",
            );
        }
        if tcp.per_user == Some(0) {
            report.add(
                format!("{path}.per_user"),
                "no one may wait for a connection",
                "write 1 or more, or remove `tcp`",
            );
        }
    }
}

/// The addresses that can be told and reached, one of each family.
fn parse(path: &str, texts: &[String], report: &mut Report) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        match text.parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() || ip.is_multicast() => {
                let reason = format!("`{text}` is not an address that a peer could send to");
                report.add(path, reason, "write an address of this machine");
            }
            Ok(ip) if found.iter().any(|known| known.is_ipv4() == ip.is_ipv4()) => {
                report.add(
                    path,
                    "there is an address of this family already",
                    "keep one of each",
                );
            }
            Ok(ip) => found.push(ip),
            Err(_) => report.add(
                path,
                format!("`{text}` is not an IP address"),
                "write one such as `192.0.2.45`",
            ),
        }
    }

    found
}
