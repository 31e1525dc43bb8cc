//! `Proxy-Trace`: a client asks each proxy of the overlay to report its part of an exchange.
//!
//! A proxy that believes the field adds to `Proxy-Status` of the final response (RFC 9209), beside its name, the rule, route and next hop
//! that it took, its attempts and the time until it answered. A node believes the field where it tells its client why something
//! failed, removes it everywhere else, and never sends it to an origin. Browsers let no page set a field whose name begins so
//! (Fetch, "forbidden request-header"): the server of a page learns nothing of the overlay by it.
//!
//! ```text
//! Proxy-Trace: ?1
//! Proxy-Status: hub; rule=video; route=video; next-hop=service-video; end; took=1.25, laptop; route=video; next-hop=hub; took=2.5
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;
use crate::proxy_status::{
    MAX_NODE, PROXY_STATUS, ReportedFailure, bare, printable, push_item, split, told,
};
use crate::quoted;

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("proxy-trace");

/// The value that asks.
pub const ASKS: HeaderValue = HeaderValue::from_static("?1");

/// Parameters of a report, besides `next-hop`. Strangers see none of them.
pub(crate) const PARAMETERS: [&str; 6] = ["rule", "route", "end", "refused", "attempts", "took"];

/// Bytes of one name in a report.
#[doc(alias = "bound")]
const MAX_NAME: usize = 128;

/// Members of `Proxy-Status` that are read of one response: more than an exchange may pass proxies.
#[doc(alias = "bound")]
const MAX_MEMBERS: usize = 32;

/// The part of one proxy in an exchange.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HopReport {
    /// The rule of its policy that decided, `default` if no rule did; `None` without a policy.
    pub rule: Option<String>,
    /// Its route.
    pub route: Option<String>,
    /// The upstream that the exchange goes to, by its configured name.
    pub next_hop: Option<String>,
    /// Whether the overlay ends at this proxy.
    pub is_end: bool,
    /// Whether this proxy refused it on its route; the member before says why.
    pub is_refused: bool,
    /// Attempts to reach the next hop, where there was more than one.
    pub attempts: Option<u64>,
    /// The time from the request to the final response.
    pub took: Option<Duration>,
}

/// A member of `Proxy-Status`, as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedHop {
    /// The proxy, by the name that it gives itself.
    pub node: String,
    /// Its report; all absent if it made none.
    pub report: HopReport,
    /// Its failure.
    pub failure: Option<ReportedFailure>,
}

/// Whether the fields ask for reports.
pub fn is_asked(fields: &Fields) -> bool {
    let mut values = fields.values(FIELD);
    let is_it = values
        .next()
        .is_some_and(|value| value.as_bytes() == ASKS.as_bytes());
    is_it && values.next().is_none()
}

impl HopReport {
    /// As the member of `Proxy-Status` of this node.
    pub fn member(&self, node: &str) -> HeaderValue {
        let mut text = String::with_capacity(96);
        push_item(node, &mut text);
        let named = [
            ("rule", &self.rule),
            ("route", &self.route),
            ("next-hop", &self.next_hop),
        ];
        for (key, name) in named {
            if let Some(name) = name {
                let _ = write!(text, "; {key}=");
                push_item(&name[..name.floor_char_boundary(MAX_NAME)], &mut text);
            }
        }

        if self.is_end {
            text.push_str("; end");
        }
        if self.is_refused {
            text.push_str("; refused");
        }
        // Writing to a string cannot fail.
        if let Some(attempts) = self.attempts {
            let _ = write!(text, "; attempts={attempts}");
        }
        if let Some(took) = self.took {
            let _ = write!(text, "; took={:.3}", took.as_secs_f64() * 1000.0);
        }
        quoted::field_value(text)
    }
}

/// The proxies that say something of a response, the nearest to the client first. Texts are bounded and printable.
///
/// # Examples
/// ```
/// use hermes_proto::fields::Fields;
/// use hermes_proto::hop_report::{HopReport, hops};
/// use hermes_proto::proxy_status::PROXY_STATUS;
///
/// let report = HopReport { route: Some("video".to_owned()), is_end: true, ..HopReport::default() };
/// let fields = Fields::from_iter([(PROXY_STATUS, report.member("hub"))]);
/// let hops = hops(&fields);
/// assert_eq!((hops[0].node.as_str(), &hops[0].report), ("hub", &report));
/// ```
pub fn hops(fields: &Fields) -> Vec<ReportedHop> {
    let lines: Vec<_> = fields
        .values(PROXY_STATUS)
        .map(|line| printable(&String::from_utf8_lossy(line.as_bytes())))
        .collect();
    let members: Vec<_> = lines.iter().flat_map(|line| split(line, ',')).collect();
    let mut members = members.into_iter().rev().take(MAX_MEMBERS);
    let mut hops = Vec::new();
    while let Some(mut hop) = members.by_ref().find_map(reported) {
        if hop.report.is_refused {
            // Its reason is the member before; anything else there came from behind it.
            let reason = members.next().and_then(reported);
            let reason = reason.filter(|reason| reason.node == hop.node);
            hop.failure = reason.and_then(|reason| reason.failure);
        }
        let is_last = hop.report.is_end || hop.report.is_refused;
        hops.push(hop);
        // A server may write the field, too, and name whom it likes.
        if is_last {
            break;
        }
    }
    hops
}

fn reported(member: &str) -> Option<ReportedHop> {
    let mut parts = split(member, ';').map(str::trim);
    let node = bare(parts.next()?, MAX_NODE);
    let mut report = HopReport::default();
    for parameter in parts {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, "?1"));
        let name = || Some(bare(value, MAX_NAME));
        match key {
            "rule" => report.rule = name(),
            "route" => report.route = name(),
            "next-hop" => report.next_hop = name(),
            "end" => report.is_end = value == "?1",
            "refused" => report.is_refused = value == "?1",
            "attempts" => report.attempts = value.parse().ok(),
            "took" => report.took = milliseconds(value),
            _ => {}
        }
    }
    (!node.is_empty()).then(|| ReportedHop {
        node,
        report,
        failure: told(member),
    })
}

fn milliseconds(value: &str) -> Option<Duration> {
    let milliseconds: f64 = value.parse().ok()?;
    Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proxy_status::{self, ProxyError};

    fn fields(lines: &[HeaderValue]) -> Fields {
        let lines = lines.iter().map(|line| (PROXY_STATUS, line.clone()));
        Fields::from_iter(lines)
    }

    #[test]
    fn hops_are_in_the_order_of_the_request() {
        let far = HopReport {
            rule: Some("video, all".to_owned()),
            route: Some("video".to_owned()),
            next_hop: Some("service-video".to_owned()),
            is_end: true,
            is_refused: false,
            attempts: Some(2),
            took: Some(Duration::from_micros(1250)),
        };
        let near = HopReport {
            took: Some(Duration::from_millis(3)),
            ..HopReport::default()
        };
        let fields = fields(&[far.member("hub"), near.member("laptop")]);
        let line = fields.values(PROXY_STATUS).next().unwrap();
        assert_eq!(
            line,
            r#"hub; rule="video, all"; route=video; next-hop=service-video; end; attempts=2; took=1.250"#
        );
        let hops = hops(&fields);
        let names: Vec<_> = hops.iter().map(|hop| hop.node.as_str()).collect();
        assert_eq!(names, ["laptop", "hub"]);
        assert_eq!((&hops[0].report, &hops[1].report), (&near, &far));
    }

    #[test]
    fn what_a_server_writes_is_no_hop() {
        let forged = proxy_status::format("hub", ProxyError::HttpRequestDenied, None, None);
        let report = HopReport {
            is_end: true,
            ..HopReport::default()
        };
        let hops = hops(&fields(&[forged, report.member("hub")]));
        assert_eq!((hops.len(), &hops[0].failure), (1, &None));
    }

    #[test]
    fn a_failure_and_its_route_are_one_hop() {
        let failure = proxy_status::format(
            "hub",
            ProxyError::ConnectionRefused,
            Some("no one listens"),
            Some("127.0.0.1:9"),
        );
        let report = HopReport {
            route: Some("video".to_owned()),
            is_refused: true,
            ..HopReport::default()
        };
        let hops = hops(&fields(&[failure, report.member("hub")]));
        assert_eq!(hops.len(), 1);
        assert_eq!(hops[0].report.route.as_deref(), Some("video"));
        let failure = hops[0].failure.as_ref().unwrap();
        assert_eq!(failure.error, ProxyError::ConnectionRefused);
    }

    #[test]
    fn only_one_field_with_the_value_asks() {
        let asked = |values: &[&'static str]| {
            let values = values
                .iter()
                .map(|value| (FIELD, HeaderValue::from_static(value)));
            is_asked(&Fields::from_iter(values))
        };
        assert!(asked(&["?1"]));
        for values in [&[][..], &["?0"], &["1"], &["?1", "?1"], &["?1, ?1"], &[""]] {
            assert!(!asked(values), "{values:?}");
        }
    }

    #[test]
    fn a_stranger_sees_no_parameter_of_a_report() {
        let report = HopReport {
            rule: Some("r".to_owned()),
            route: Some("r".to_owned()),
            next_hop: Some("n".to_owned()),
            is_end: true,
            is_refused: true,
            attempts: Some(2),
            took: Some(Duration::from_millis(1)),
        };
        let mut fields = fields(&[report.member("hub")]);
        assert!(!proxy_status::hide_details(&mut fields));
        assert_eq!(fields.get(PROXY_STATUS).unwrap(), "hub");
    }

    proptest! {
        #[test]
        fn any_names_are_one_member(rule: String, node in "[ -~]{1,60}") {
            let report = HopReport { rule: Some(rule), is_end: true, ..HopReport::default() };
            let fields = fields(&[report.member(&node)]);
            let hops = hops(&fields);
            prop_assert_eq!(hops.len(), 1);
            prop_assert!(hops[0].report.is_end);
        }

        #[test]
        fn any_field_is_read_within_bounds(lines in proptest::collection::vec("[ -~]{0,300}", 0..5)) {
            let values = lines.iter().filter_map(|line| HeaderValue::from_str(line).ok());
            let fields = fields(&values.collect::<Vec<_>>());
            let hops = hops(&fields);
            prop_assert!(hops.len() <= MAX_MEMBERS);
            prop_assert!(hops.iter().all(|hop| hop.node.len() <= MAX_NODE));
        }
    }
}
