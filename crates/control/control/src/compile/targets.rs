//! Targets that two conditions have in common.

use hermes_config::model::{HostMatch, TargetMatch};

/// The targets that both conditions mean; `None` if there are none. Expressions meet nothing: whether they do cannot be told.
pub(super) fn meet(one: &TargetMatch, other: &TargetMatch) -> Option<TargetMatch> {
    let port = match (one.port, other.port) {
        (Some(one), Some(other)) if one != other => return None,
        (one, other) => one.or(other),
    };
    let host = match (
        is_within(&one.host, &other.host),
        is_within(&other.host, &one.host),
    ) {
        (true, _) => one.host.clone(),
        (false, true) => other.host.clone(),
        (false, false) => return None,
    };
    Some(TargetMatch { host, port })
}

/// Whether every host that fulfils the first condition fulfils the second one.
fn is_within(inner: &HostMatch, outer: &HostMatch) -> bool {
    match (inner, outer) {
        (HostMatch::Regex(_) | HostMatch::Service(_), _) => false,
        (_, HostMatch::Regex(_) | HostMatch::Service(_)) => false,
        (HostMatch::Exact(host), outer) => outer.matches(host),
        (_, HostMatch::Suffix(suffix)) if suffix.is_empty() => true,
        (HostMatch::Suffix(inner), HostMatch::Suffix(outer)) => inner.ends_with(outer.as_str()),
        (HostMatch::Net(inner), HostMatch::Net(outer)) => outer.contains(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(one: &str, other: &str) -> Option<String> {
        let [one, other] = [one, other].map(|text| text.parse::<TargetMatch>().unwrap());
        let met = meet(&one, &other);
        assert_eq!(met, meet(&other, &one), "either way");
        met.map(|target| target.to_string())
    }

    #[test]
    fn the_narrower_condition_is_what_both_mean() {
        for (one, other, both) in [
            ("VIDEO", "video", Some("video")),
            ("VIDEO:80", "video", Some("video:80")),
            ("video", "*", Some("video")),
            (
                "a.example.com",
                "*.example.com:443",
                Some("a.example.com:443"),
            ),
            ("*.a.example", "*.example", Some("*.a.example")),
            ("10.1.0.0/16", "10.0.0.0/8", Some("10.1.0.0/16")),
            ("10.1.2.3", "10.0.0.0/8", Some("10.1.2.3")),
            ("10.0.0.0/8", "*", Some("10.0.0.0/8")),
            ("video:80", "video:81", None),
            ("video", "db", None),
            ("*.a.example", "*.b.example", None),
            ("~v", "video", None),
        ] {
            assert_eq!(met(one, other).as_deref(), both, "{one} {other}");
        }
    }
}
