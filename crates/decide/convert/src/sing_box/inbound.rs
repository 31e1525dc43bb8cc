//! Inbounds.

use serde_json::{Value as Json, json};

use crate::draft::Draft;
use crate::new_file::{NewFile, NewFileContent, NewUser};
use crate::source::Node;

/// Keys that say nothing that needs to be told here.
const SILENT: &[&str] = &[
    "type",
    "tag",
    "sniff",
    "sniff_override_destination",
    "sniff_timeout",
    "domain_strategy",
    "tcp_fast_open",
    "udp_fragment",
    "udp_timeout",
    "set_system_proxy",
];

/// Where a device's flows come from, beside the network of its own address.
const POOL: &str = "172.19.0.0/24";

/// The converted inbounds.
#[derive(Default)]
pub(super) struct Inbounds {
    /// Our names, by tag.
    names: Vec<(String, String)>,
    /// The route that ends the packets of devices.
    pub(super) tun: Option<Json>,
}

impl Inbounds {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Our name of the listener with this tag.
    pub(super) fn named(&self, tag: &str) -> Option<&str> {
        let found = self.names.iter().find(|(known, _)| known == tag);
        found.map(|(_, name)| name.as_str())
    }
}

pub(super) fn convert_all(inbounds: &[Node], draft: &mut Draft) -> Inbounds {
    let mut all = Inbounds::default();
    for inbound in inbounds {
        inbound.skip(SILENT);
        let kind = inbound.text("type").unwrap_or_default();
        let tag = inbound.text("tag").unwrap_or(kind);
        let subject = format!("inbound {tag}");
        let listeners = match kind {
            "http" | "mixed" | "socks" => proxy(inbound, kind, &subject, draft),
            "direct" => direct(inbound, &subject, draft),
            "tun" => tun(inbound, &subject, &mut all, draft),
            other => {
                inbound.skip_all();
                let reason = format!("there is no listener for {other}");
                draft.left_out(inbound.line, subject, reason);
                continue;
            }
        };
        for listener in listeners {
            let name = draft.name(tag);
            draft.listeners.insert(name.clone(), listener);
            all.names.push((tag.to_owned(), name));
        }
    }
    all
}

/// The address that an inbound listens at.
fn address(inbound: &Node) -> Option<String> {
    let host = inbound.text("listen").unwrap_or("127.0.0.1");
    let port = inbound
        .number("listen_port")
        .filter(|port| *port <= 65535)?;
    Some(match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

fn is_public(inbound: &Node) -> bool {
    let host = inbound.text("listen").unwrap_or("127.0.0.1");
    !host
        .parse()
        .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn proxy(inbound: &Node, kind: &str, subject: &str, draft: &mut Draft) -> Vec<Json> {
    let Some(address) = address(inbound) else {
        draft.left_out(inbound.line, subject, "it has no `listen_port`");
        return Vec::new();
    };
    if kind == "mixed" {
        let reason =
            "it takes HTTP alone: SOCKS has a listener of its own, `socks`, at another port";
        draft.left_out(inbound.line, subject, reason);
    }
    let mut listener = match kind {
        "socks" => json!({ "socks": address }),
        _ => json!({ "http": address }),
    };
    if inbound.flag("tcp_multi_path") {
        listener["multipath"] = json!(true);
    }
    let users: Vec<NewUser> = inbound.list("users").iter().filter_map(user).collect();
    if !users.is_empty() {
        let name = "users.txt".to_owned();
        listener["auth"] = json!({ "basic": { "file": name } });
        add_users(name, users, draft);
    } else if is_public(inbound) {
        listener["public"] = json!(true);
    }
    if let Some(tls) = inbound.field("tls").filter(|tls| tls.flag("enabled")) {
        tls.skip(&["alpn", "server_name"]);
        let files = tls.text("certificate_path").zip(tls.text("key_path"));
        let Some((certificate, key)) = files else {
            let reason = "its certificate and key are in no files; without TLS the listener would not be the same";
            draft.left_out(tls.line, subject, reason);
            return Vec::new();
        };
        listener["tls"] = json!({ "cert_file": certificate, "key_file": key });
    }
    vec![listener]
}

fn user(user: &Node) -> Option<NewUser> {
    Some(NewUser {
        name: user.text("username")?.to_owned(),
        password: user.text("password")?.to_owned(),
    })
}

/// One file has the users of all listeners.
fn add_users(name: String, users: Vec<NewUser>, draft: &mut Draft) {
    let known = draft.files.iter_mut().find(|file| file.name == name);
    if let Some(NewFile {
        content: NewFileContent::Users(all),
        ..
    }) = known
    {
        let fresh = users
            .into_iter()
            .filter(|user| !all.contains(user))
            .collect::<Vec<_>>();
        all.extend(fresh);
        return;
    }
    let content = NewFileContent::Users(users);
    draft.files.push(NewFile { name, content });
}

/// A port for connections and datagrams to one target.
fn direct(inbound: &Node, subject: &str, draft: &mut Draft) -> Vec<Json> {
    let host = inbound.text("override_address");
    let port = inbound
        .number("override_port")
        .or(inbound.number("listen_port"));
    let target = host.zip(port).map(|(host, port)| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    });
    let network = inbound.texts("network");
    let Some((address, target)) = address(inbound).zip(target) else {
        let reason = "it needs `listen_port` and `override_address`";
        draft.left_out(inbound.line, subject, reason);
        return Vec::new();
    };
    let public = is_public(inbound);
    let listener = |kind: &str| {
        let mut listener = json!({ kind: address, "target": target });
        if public {
            listener["public"] = json!(true);
        }
        listener
    };
    let kinds = ["tcp", "udp"].into_iter();
    let wanted = kinds.filter(|kind| network.is_empty() || network.contains(kind));
    wanted.map(listener).collect()
}

/// A device: its packets become connections and datagrams, which take the routes.
fn tun(inbound: &Node, subject: &str, all: &mut Inbounds, draft: &mut Draft) -> Vec<Json> {
    inbound.skip(&[
        "stack",
        "auto_route",
        "strict_route",
        "address",
        "inet4_address",
        "inet6_address",
        "endpoint_independent_nat",
        "auto_redirect",
        "gso",
    ]);
    let name = inbound.text("interface_name").unwrap_or("tun0");
    let prefixes = |keys: &[&str]| {
        let all = keys.iter().flat_map(|key| inbound.texts(key));
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut routes = prefixes(&[
        "route_address",
        "inet4_route_address",
        "inet6_route_address",
    ]);
    let exclude = prefixes(&[
        "route_exclude_address",
        "inet4_route_exclude_address",
        "inet6_route_exclude_address",
    ]);
    routes.retain(|route| is_ipv4(route));
    if routes.is_empty() {
        routes.push("0.0.0.0/0".to_owned());
    }
    let mut tun = json!({ "name": name, "routes": routes });
    let exclude: Vec<String> = exclude
        .into_iter()
        .filter(|prefix| is_ipv4(prefix))
        .collect();
    if !exclude.is_empty() {
        tun["exclude"] = json!(exclude);
    }
    if let Some(mtu) = inbound
        .number("mtu")
        .filter(|mtu| (1280..=65535).contains(mtu))
    {
        tun["mtu"] = json!(mtu);
    }

    let reason = format!(
        "its device gets an address of {POOL}; connections are for addresses, not names (`dns` of the listener has names), and IPv6 does not enter"
    );
    draft.differs(inbound.line, subject, reason);
    let end = json!({ "intercept": true, "pool": POOL });
    all.tun = Some(json!({ "match": { "kind": "connect-ip" }, "terminate": end }));
    vec![json!({ "tun": tun })]
}

fn is_ipv4(prefix: &str) -> bool {
    prefix
        .parse()
        .is_ok_and(|prefix: ipnet::IpNet| prefix.addr().is_ipv4())
}
