//! Which addresses a request may choose.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::Egress;
use hermes_rules::EgressRules;
use serde_json::{Value, json};

fn rules(egress: Value) -> EgressRules {
    let egress: Egress = serde_json::from_value(egress).unwrap();
    EgressRules::compile(&egress, &[])
}

/// Of a machine without addresses.
fn nowhere(_: IpAddr) -> bool {
    false
}

/// The rule that denies port 443 of an address, or nothing.
fn denied(rules: &EgressRules, ip: &str) -> Option<String> {
    let address = SocketAddr::new(ip.parse().unwrap(), 443);
    rules
        .check(address, nowhere)
        .err()
        .map(|denied| denied.rule)
}

#[test]
fn public_addresses_are_allowed() {
    let rules = rules(json!({}));
    for ip in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "192.0.1.0",
        "2606:4700::1111",
        "2a00::1",
        "fbff::1",
        "2001:db7::1",
        "2001:200::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2001:0:808:808::f7f7:f7f7",
    ] {
        assert_eq!(denied(&rules, ip), None, "{ip}");
    }
}

#[test]
fn special_addresses_are_denied_in_words() {
    let rules = rules(json!({}));
    for (ip, what) in [
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("169.254.169.254", "cloud metadata"),
        ("fd00:ec2::254", "cloud metadata"),
        ("169.254.0.1", "link-local"),
        ("fe80::1", "link-local"),
        ("febf::1", "link-local"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.255.255", "private"),
        ("fc00::1", "private"),
        ("fdff::1", "private"),
        ("100.64.0.1", "shared (carrier-grade NAT)"),
        ("100.127.255.255", "shared (carrier-grade NAT)"),
        ("198.18.0.1", "benchmarking"),
        ("198.19.255.255", "benchmarking"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("2001:db8::1", "documentation"),
        ("192.0.0.1", "protocol assignments"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("ff02::1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("fec0::1", "site-local"),
        ("100::1", "discard-only"),
        ("64:ff9b:1::1", "local translation"),
    ] {
        let rule = denied(&rules, ip).unwrap_or_default();
        assert!(
            rule.starts_with(&format!("{what} addresses (")),
            "{ip}: {rule}"
        );
    }
    assert_eq!(
        denied(&rules, "10.0.0.1").unwrap(),
        "private addresses (10.0.0.0/8) are denied unless egress.allow names them"
    );
}

#[test]
fn addresses_within_addresses_are_judged() {
    let rules = rules(json!({}));
    for ip in [
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "::10.0.0.1",
        "::2",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::1",
        "2002:a00:1::",
        // Teredo: the server 10.0.0.1; the client 127.0.0.1, inverted.
        "2001:0:a00:1::f7f7:f7f7",
        "2001:0:808:808::80ff:fffe",
    ] {
        assert!(denied(&rules, ip).is_some(), "{ip}");
    }
}

#[test]
fn allow_opens_what_the_default_denies() {
    let rules = rules(json!({ "allow": ["10.1.0.0/16", "::1/128", "::ffff:192.168.0.0/112"] }));
    for ip in [
        "10.1.2.3",
        "::ffff:10.1.2.3",
        "64:ff9b::10.1.2.3",
        "::1",
        "192.168.3.4",
    ] {
        assert_eq!(denied(&rules, ip), None, "{ip}");
    }
    for ip in [
        "10.2.0.1",
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::10.2.0.1",
    ] {
        assert!(denied(&rules, ip).is_some(), "{ip}");
    }
}

#[test]
fn both_addresses_within_a_teredo_address_must_be_allowed() {
    let rules = rules(json!({ "allow": ["10.1.0.0/16"] }));
    assert!(denied(&rules, "2001:0:a01:203::80ff:fffe").is_some());
    assert_eq!(denied(&rules, "2001:0:a01:203::f5fe:fdfc"), None);
}

#[test]
fn allowing_a_wrapper_does_not_allow_what_it_holds() {
    let rules = rules(json!({ "allow": ["2002::/16", "64:ff9b::/96"] }));
    assert!(denied(&rules, "2002:7f00:1::1").is_some());
    assert!(denied(&rules, "64:ff9b::127.0.0.1").is_some());
}

#[test]
fn deny_beats_allow() {
    let rules = rules(
        json!({ "allow": ["10.0.0.0/8"], "deny": ["10.0.0.0/16", "8.8.8.0/24", "2002::/16"] }),
    );
    assert_eq!(
        denied(&rules, "10.0.0.1").unwrap(),
        "egress.deny names 10.0.0.0/16"
    );
    assert_eq!(denied(&rules, "10.1.0.1"), None);
    assert_eq!(
        denied(&rules, "8.8.8.8").unwrap(),
        "egress.deny names 8.8.8.0/24"
    );
    assert_eq!(
        denied(&rules, "::ffff:8.8.8.8").unwrap(),
        "egress.deny names 8.8.8.0/24"
    );
    assert_eq!(
        denied(&rules, "64:ff9b::8.8.8.8").unwrap(),
        "egress.deny names 8.8.8.0/24"
    );
    assert_eq!(
        denied(&rules, "2002:101:101::1").unwrap(),
        "egress.deny names 2002::/16"
    );
}

#[test]
fn ports_are_denied_whatever_the_address() {
    let check = |rules: &EgressRules, address: &str| {
        rules
            .check(address.parse().unwrap(), nowhere)
            .map_err(|denied| denied.to_string())
    };
    let default = rules(json!({ "allow": ["10.0.0.0/8"] }));
    assert_eq!(
        check(&default, "8.8.8.8:25").unwrap_err(),
        "8.8.8.8:25 is denied: egress.deny_ports names port 25"
    );
    assert!(check(&default, "10.0.0.1:25").is_err());
    let own = rules(json!({ "deny_ports": ["1-1023", 6000] }));
    assert_eq!(
        check(&own, "[2a00::1]:443").unwrap_err(),
        "[2a00::1]:443 is denied: egress.deny_ports names port 1-1023"
    );
    assert!(check(&own, "8.8.8.8:6000").is_err());
    assert!(check(&own, "8.8.8.8:1024").is_ok());
    assert!(check(&rules(json!({ "deny_ports": [] })), "8.8.8.8:25").is_ok());
}

#[test]
fn own_listeners_are_denied_even_if_allowed() {
    let allow = json!({ "allow": ["0.0.0.0/0", "::/0", "127.0.0.0/8", "::1/128", "192.168.1.5/32", "2a00::2/128"] });
    let egress: Egress = serde_json::from_value(allow).unwrap();
    let own: Vec<SocketAddr> = ["127.0.0.1:8080", "0.0.0.0:80", "[::]:443", "[2a00::1]:99"]
        .iter()
        .map(|own| own.parse().unwrap())
        .collect();
    let local: Vec<IpAddr> = ["192.168.1.5", "2a00::2"]
        .iter()
        .map(|local| local.parse().unwrap())
        .collect();
    let rules = EgressRules::compile(&egress, &own);
    let is_local = |ip: IpAddr| ip.is_loopback() || local.contains(&ip);
    let check = |address: &str| {
        rules
            .check(address.parse().unwrap(), is_local)
            .map_err(|denied| denied.rule)
    };
    for address in [
        "127.0.0.1:8080",
        "[::ffff:127.0.0.1]:8080",
        "[64:ff9b::127.0.0.1]:8080",
        "0.0.0.0:8080",
        "127.0.0.9:80",
        "192.168.1.5:80",
        "0.0.0.0:80",
        "192.168.1.5:443",
        "[2a00::2]:443",
        "[::1]:443",
        "[::]:443",
        "[2a00::1]:99",
    ] {
        assert!(check(address).is_err(), "{address}");
    }
    for address in [
        "127.0.0.2:8080",
        "192.168.1.6:80",
        "192.168.1.5:8080",
        "[2a00::3]:443",
        "[2a00::2]:99",
        "127.0.0.1:81",
    ] {
        assert_eq!(check(address), Ok(()), "{address}");
    }
    assert_eq!(
        check("127.0.0.1:8080").unwrap_err(),
        "this proxy itself listens on 127.0.0.1:8080"
    );
}

/// The rule that denies port 6379 of an address, on a machine that has these.
fn denied_at(allow: Value, ip: &str) -> Option<String> {
    let own: [IpAddr; 3] = ["198.18.7.7", "8.8.4.4", "2a00::5"].map(|own| own.parse().unwrap());
    let is_local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified() || own.contains(&ip);
    let address = SocketAddr::new(ip.parse().unwrap(), 6379);
    rules(json!({ "allow": allow }))
        .check(address, is_local)
        .err()
        .map(|denied| denied.rule)
}

#[test]
fn addresses_of_this_machine_are_denied_in_every_form() {
    for ip in [
        "8.8.4.4",
        "::ffff:8.8.4.4",
        "64:ff9b::8.8.4.4",
        "2002:808:404::1",
        "2a00::5",
        "2001:0:808:404::f7f7:f7f7",
    ] {
        assert!(denied_at(json!([]), ip).is_some(), "{ip}");
    }
    assert_eq!(
        denied_at(json!([]), "8.8.4.4").unwrap(),
        "8.8.4.4 is an address of this machine, denied unless egress.allow names 8.8.4.4/32 alone"
    );
    assert_eq!(denied_at(json!([]), "8.8.4.5"), None);
}

#[test]
fn a_prefix_opens_a_network_and_not_this_machine_in_it() {
    for allow in [
        json!(["0.0.0.0/0", "::/0"]),
        json!(["8.8.4.0/24", "2a00::/64", "198.18.0.0/15"]),
    ] {
        for ip in [
            "8.8.4.4",
            "64:ff9b::8.8.4.4",
            "2a00::5",
            "198.18.7.7",
            "127.0.0.1",
            "::1",
        ] {
            assert!(denied_at(allow.clone(), ip).is_some(), "{ip} with {allow}");
        }
        assert_eq!(denied_at(allow, "8.8.4.9"), None);
    }
    let alone = json!([
        "8.8.4.4/32",
        "2a00::5/128",
        "198.18.7.7/32",
        "127.0.0.0/8",
        "::1/128"
    ]);
    for ip in [
        "8.8.4.4",
        "::ffff:8.8.4.4",
        "2a00::5",
        "198.18.7.7",
        "127.0.0.9",
        "::1",
    ] {
        assert_eq!(denied_at(alone.clone(), ip), None, "{ip}");
    }
}
