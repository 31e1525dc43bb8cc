//! The functions that PAC files have.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use super::condition::{Conjunction, HostPattern, PLAIN, Predicate};
use super::predicates::{host, matches, scheme};
use super::value::Value;

/// The value of a call; `None` for a function or operands that are not understood.
pub(super) fn call(name: &str, operands: &[Value]) -> Option<Value> {
    Some(match (name, operands) {
        ("isPlainHostName", [Value::Host]) => Value::Predicate(matches(PLAIN.to_owned())),
        ("dnsDomainIs", [Value::Host, Value::Text(domain)]) => Value::Predicate(domain_is(domain)),
        ("localHostOrDomainIs", [Value::Host, Value::Text(name)]) => {
            let name = name.to_ascii_lowercase();
            let short = name.split('.').next().unwrap_or_default().to_owned();
            let mut names = vec![HostPattern::Exact(name.clone())];
            if short != name {
                names.push(HostPattern::Exact(short));
            }
            Value::Predicate(Predicate::hosts(names))
        }
        ("isInNet", [Value::Host, Value::Text(net), Value::Text(mask)]) => {
            let net: Ipv4Addr = net.parse().ok()?;
            let mask: Ipv4Addr = mask.parse().ok()?;
            let net = Ipv4Net::with_netmask(net, mask).ok()?.trunc();
            Value::Predicate(host(HostPattern::Net(net.into())))
        }
        ("isInNetEx", [Value::Host, Value::Text(prefix)]) => {
            let prefix: IpNet = prefix.parse().ok()?;
            Value::Predicate(host(HostPattern::Net(prefix.trunc())))
        }
        ("shExpMatch", [Value::Host, Value::Text(glob)]) => {
            Value::Predicate(host(HostPattern::of_glob(glob)))
        }
        ("shExpMatch", [Value::Url, Value::Text(glob)]) => Value::Predicate(url_glob(glob)?),
        ("dnsResolve", [Value::Host]) => Value::Host,
        ("dnsDomainLevels", [Value::Host]) => Value::Dots,
        _ => return None,
    })
}

/// A name and all below it.
fn domain_is(domain: &str) -> Predicate {
    let domain = domain.to_ascii_lowercase();
    match domain.strip_prefix('.') {
        Some(name) if !name.is_empty() => host(HostPattern::Below(domain)),
        _ if domain.is_empty() => Predicate::Always,
        _ => Predicate::hosts(vec![
            HostPattern::Exact(domain.clone()),
            HostPattern::Below(format!(".{domain}")),
        ]),
    }
}

/// A glob of a URL that asks for scheme, host and port alone.
fn url_glob(glob: &str) -> Option<Predicate> {
    let (written, rest) = glob.split_once("://").unwrap_or(("*", glob));
    if rest == glob && !glob.starts_with('*') {
        return None;
    }
    let mut parts = Vec::new();
    if written != "*" && written != "http*" {
        parts.push(scheme(written)?);
    }
    // Behind a host without a path, a star stands for port and path.
    let (authority, path) = rest
        .split_once('/')
        .unwrap_or((rest.trim_end_matches('*'), ""));
    if !path.chars().all(|letter| letter == '*') {
        return None;
    }
    let (name, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    if !port.is_empty() {
        parts.push(Predicate::Is(Conjunction {
            port: Some(port.parse().ok()?),
            ..Conjunction::default()
        }));
    }
    if !name.is_empty() && name != "*" {
        parts.push(host(HostPattern::of_glob(name)));
    }
    Some(Predicate::All(parts))
}
