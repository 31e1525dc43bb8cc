//! Checks of CONNECT-UDP Bind.

use std::net::IpAddr;

use hermes_config::model::{Document, Terminate};

use super::report::{Check, Report};

pub(super) const CHECKS: &[Check] = &[action, addresses];

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
