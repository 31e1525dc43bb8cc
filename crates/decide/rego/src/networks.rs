//! Builtins on addresses and prefixes.

use std::net::IpAddr;

use ipnet::IpNet;
use regorus::Value;

/// A prefix as OPA writes it; host bits count for nothing.
fn prefix(value: &Value) -> Option<IpNet> {
    value.as_string().ok()?.parse::<IpNet>().ok()
}

/// A prefix, or an address as the prefix of itself.
fn prefix_or_address(value: &Value) -> Option<IpNet> {
    let text = value.as_string().ok()?;
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    prefix(value).or_else(address)
}

pub(crate) fn contains(operands: &[Value]) -> Option<Value> {
    let [around, within] = operands else {
        return None;
    };
    let contains = prefix(around)?.contains(&prefix_or_address(within)?.trunc());
    Some(Value::from(contains))
}

pub(crate) fn intersects(operands: &[Value]) -> Option<Value> {
    let [one, other] = operands else { return None };
    let one = prefix(one)?;
    let other = prefix(other)?;
    let meet = one.contains(&other.network()) || other.contains(&one.network());
    Some(Value::from(meet))
}

pub(crate) fn is_valid(operands: &[Value]) -> Option<Value> {
    Some(Value::from(prefix(operands.first()?).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(builtin: fn(&[Value]) -> Option<Value>, operands: &[&str]) -> Option<bool> {
        let operands: Vec<_> = operands.iter().copied().map(Value::from).collect();
        builtin(&operands).map(|value| *value.as_bool().unwrap())
    }

    #[test]
    fn prefixes_contain_addresses_and_smaller_prefixes() {
        assert_eq!(call(contains, &["10.0.0.0/8", "10.1.2.3"]), Some(true));
        assert_eq!(call(contains, &["10.0.0.0/8", "10.1.0.0/16"]), Some(true));
        assert_eq!(call(contains, &["10.1.0.0/16", "10.0.0.0/8"]), Some(false));
        assert_eq!(
            call(contains, &["2001:db8::/32", "2001:db8::1"]),
            Some(true)
        );
        assert_eq!(call(contains, &["10.0.0.0/8", "::1"]), Some(false));
        assert_eq!(call(contains, &["10.0.0.0", "10.0.0.0"]), None);
        assert_eq!(call(intersects, &["10.1.0.0/16", "10.0.0.0/8"]), Some(true));
        assert_eq!(
            call(intersects, &["10.0.0.0/9", "10.128.0.0/9"]),
            Some(false)
        );
        assert_eq!(call(is_valid, &["10.0.0.0/33"]), Some(false));
    }
}
