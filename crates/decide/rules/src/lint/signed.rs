//! Checks of signed URLs.

use hermes_config::model::{Document, ExchangeKind};

use super::report::{Check, Report};
use super::routes::each_route;

/// Keys of one route: each costs a wrong signature a comparison.
#[doc(alias = "bound")]
const KEYS: usize = 4;

pub(super) const CHECKS: &[Check] = &[keys, parameters, kinds];

fn keys(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        let Some(signed) = &route.signed else { return };
        let count = signed.key_file.len();
        if count == 0 || count > KEYS {
            let reason = format!("there are {count} keys");
            let remedy = format!("name one to {KEYS} files");
            report.add(format!("{path}.signed.key_file"), reason, remedy);
        }
    });
}

fn parameters(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        let Some(signed) = &route.signed else { return };
        let name = signed.parameter();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            report.add(
                format!("{path}.signed.parameter"),
                "it is no name of a parameter that every client writes alike",
                "write letters, digits, `-`, `_`, `.` and `~`",
            );
        }
    });
}

fn kinds(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        let mut kinds = route.matches.kind.iter().flatten();
        let names_kinds = route.matches.kind.is_some();
        if route.signed.is_some() && names_kinds && !kinds.any(|kind| *kind == ExchangeKind::Http) {
            report.add(
                format!("{path}.signed"),
                "signed URLs are for requests, and the route takes none",
                "remove it, or add `http` to `match.kind`",
            );
        }
    });
}
