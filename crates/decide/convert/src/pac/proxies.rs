//! Results of `FindProxyForURL`: `PROXY a:8080; DIRECT`.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value as Json, json};

use super::condition::{Conjunction, HostPattern};
use crate::draft::{Draft, put};

/// Private networks, which a program on this machine reaches directly.
const PRIVATE: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

/// Proxies of one result.
#[doc(alias = "bound")]
const PROXIES: usize = 256;

/// Characters of a result that are said of it.
#[doc(alias = "bound")]
const SAID: usize = 200;

/// A result as it is quoted.
fn quoted(result: &str) -> String {
    match result.char_indices().nth(SAID) {
        Some((end, _)) => format!("`{}..`", &result[..end]),
        None => format!("`{result}`"),
    }
}

/// The upstreams of the results that were seen.
#[derive(Default)]
pub(super) struct Proxies {
    names: HashMap<String, String>,
}

impl Proxies {
    /// Gives a route the action of a result.
    pub(super) fn lead(
        &mut self,
        result: &str,
        condition: &Conjunction,
        line: u32,
        route: &mut Json,
        draft: &mut Draft,
    ) {
        let mut entries: Vec<ProxyEntry<'_>> =
            result.split(';').filter_map(ProxyEntry::parse).collect();
        if entries.len() > PROXIES {
            let reason = format!("it has more than {PROXIES} proxies; the others are gone");
            draft.left_out(line, quoted(result), reason);
            entries.truncate(PROXIES);
        }
        match entries.first() {
            Some(ProxyEntry::Direct) => direct(condition, line, route, draft),
            Some(ProxyEntry::Proxy { .. } | ProxyEntry::Socks(_)) => {
                self.proxy(result, &entries, line, route, draft)
            }
            None => {
                draft.left_out(
                    line,
                    quoted(result),
                    "is not a result; its requests are answered with 501",
                );
                refuse(route);
            }
        }
    }

    fn proxy(
        &mut self,
        result: &str,
        entries: &[ProxyEntry<'_>],
        line: u32,
        route: &mut Json,
        draft: &mut Draft,
    ) {
        if let Some(known) = self.names.get(result) {
            put(route, "to", json!(known));
            return;
        }
        let first = entries.iter().find_map(ProxyEntry::is_tls);
        let Some(is_tls) = first else {
            draft.left_out(
                line,
                quoted(result),
                "SOCKS is not supported; its requests are answered with 501",
            );
            refuse(route);
            return;
        };

        let mut endpoints = Vec::new();
        for entry in entries {
            match entry {
                ProxyEntry::Proxy {
                    address,
                    is_tls: other,
                } if *other == is_tls => endpoints.push(address.clone()),
                ProxyEntry::Proxy { address, .. } => {
                    draft.left_out(
                        line,
                        address,
                        "proxies with TLS and without are not of one upstream",
                    );
                }
                ProxyEntry::Socks(address) => {
                    draft.left_out(line, *address, "SOCKS is not supported")
                }
                ProxyEntry::Direct => {
                    let reason =
                        "where no proxy answers, exchanges are refused and go nowhere else";
                    draft.left_out(line, "DIRECT", reason);
                }
            }
        }
        if endpoints.len() > 1 {
            let reason = "proxies take turns; one that fails is left out for a while";
            draft.differs(line, quoted(result), reason);
        }
        let like = endpoints
            .first()
            .map_or("proxy", |first| first.split(':').next().unwrap_or("proxy"));
        let name = draft.name(like);
        let mut upstream = json!({ "endpoints": endpoints });
        if is_tls {
            upstream["tls"] = json!(true);
        }
        draft.upstreams.insert(name.clone(), upstream);
        put(route, "to", json!(name));
        self.names.insert(result.to_owned(), name);
    }
}

fn refuse(route: &mut Json) {
    let body = "this result was not carried over\n";
    put(route, "respond", json!({ "status": 501, "body": body }));
}

/// Connections to the target itself, which may be in a private network, as they may be of the browser.
fn direct(condition: &Conjunction, line: u32, route: &mut Json, draft: &mut Draft) {
    put(route, "terminate", json!(true));
    if draft.egress.is_empty() {
        draft.egress.extend(PRIVATE.map(str::to_owned));
        let reason = "names are looked up by this node, and a network is met by addresses alone, not by what a name leads to";
        draft.differs(line, "DIRECT", reason);
    }
    for host in condition.hosts.iter().flatten() {
        if let HostPattern::Net(net) = host {
            let text = net.to_string();
            if is_private(net)
                && !draft.egress.contains(&text)
                && net.prefix_len() > 12
                && !PRIVATE.iter().any(|known| covers(known, net))
            {
                draft.egress.push(text);
            }
        }
    }
}

fn covers(prefix: &str, net: &IpNet) -> bool {
    prefix
        .parse()
        .is_ok_and(|prefix: IpNet| prefix.contains(net))
}

/// One of the ways that a result lists.
enum ProxyEntry<'a> {
    Direct,
    Proxy { address: String, is_tls: bool },
    Socks(&'a str),
}

impl<'a> ProxyEntry<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let kind = words.next()?.to_ascii_uppercase();
        let address = words.next().unwrap_or_default();
        let with_port = |port: u16| match address.rsplit_once(':') {
            Some((host, written)) if !host.is_empty() && written.parse::<u16>().is_ok() => {
                address.to_owned()
            }
            _ => format!("{address}:{port}"),
        };
        match kind.as_str() {
            "DIRECT" => Some(Self::Direct),
            "SOCKS" | "SOCKS4" | "SOCKS5" => Some(Self::Socks(address)),
            "PROXY" | "HTTP" if !address.is_empty() => Some(Self::Proxy {
                address: with_port(80),
                is_tls: false,
            }),
            "HTTPS" if !address.is_empty() => Some(Self::Proxy {
                address: with_port(443),
                is_tls: true,
            }),
            _ => None,
        }
    }

    fn is_tls(&self) -> Option<bool> {
        match self {
            Self::Proxy { is_tls, .. } => Some(*is_tls),
            Self::Direct | Self::Socks(_) => None,
        }
    }
}

/// Whether a network is for private use (RFC 1918; RFC 4193, 3).
fn is_private(net: &IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => (address.segments()[0] & 0xfe00) == 0xfc00,
    }
}
