//! Checks of captured traffic of the machine.

use hermes_config::model::{Document, FlowProtocol};

use super::report::{Check, Report, each_listener};

/// Bytes of the longest name of an interface.
const LONGEST_NAME: usize = 15;

pub(super) const CHECKS: &[Check] = &[senders, interfaces, protocols, refused];

fn senders(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(capture) = listener.host_capture() else {
            return;
        };
        let only = capture.only.as_ref();
        let is_empty = only.is_none_or(|only| only.users.is_empty() && only.cgroups.is_empty());
        if capture.interfaces.is_empty() && is_empty {
            report.add(
                format!("{path}.capture.host"),
                "the listener does not say whose traffic it captures",
                "add `interfaces`, or `only` with `users` or `cgroups`",
            );
        }
    });
}

fn interfaces(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let interfaces = listener
            .host_capture()
            .into_iter()
            .flat_map(|capture| &capture.interfaces);
        for name in interfaces {
            let is_sound = (1..=LONGEST_NAME).contains(&name.len());
            if !is_sound || name.contains(['/', '\0']) || name.contains(char::is_whitespace) {
                report.add(
                    format!("{path}.capture.host.interfaces"),
                    format!("`{name}` is no name of an interface"),
                    "write one that `ip link` shows",
                );
            }
            if name == "lo" {
                report.add(
                    format!("{path}.capture.host.interfaces"),
                    "traffic within this machine does not come by an interface",
                    "name its senders in `only`",
                );
            }
        }
    });
}

fn protocols(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(capture) = listener.host_capture() else {
            return;
        };
        if !capture.takes(FlowProtocol::Tcp) && !capture.takes(FlowProtocol::Udp) {
            report.add(
                format!("{path}.capture.host.protocols"),
                "an empty list captures nothing",
                "write `tcp`, `udp` or both, or remove it for both",
            );
        }
    });
}

fn refused(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(capture) = listener.host_capture() else {
            return;
        };
        for refused in &capture.refuse {
            if !capture.takes(refused.protocol) {
                report.add(
                    format!("{path}.capture.host.refuse"),
                    format!("`{refused}` is of a protocol that is not captured"),
                    "remove it, or add the protocol to `protocols`",
                );
            }
        }
    });
}
