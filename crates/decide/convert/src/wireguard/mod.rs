//! WireGuard, as `wg-quick` reads it.
//!
//! A peer with networks behind it becomes a device at which tunnels end, and this machine's own
//! device leads there. A peer that is one host becomes a listener: its packets enter the overlay,
//! and leave it by a device of this machine.

mod ini;
pub(crate) mod pool;

use ipnet::IpNet;
use serde_json::{Value as Json, json};

use crate::draft::{Draft, Rank, one_or_many};
use crate::new_file::{NewFile, NewFileContent};
use crate::unreadable::Unreadable;
use ini::{Section, Setting};

/// The default port of WireGuard.
const PORT: &str = "51820";

/// Peers of a file: each is a device.
#[doc(alias = "bound")]
const PEERS: usize = 1000;

pub(crate) fn convert(text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let sections = ini::parse(text)?;
    let mut interfaces = sections
        .iter()
        .filter(|section| section.name == "interface");
    let Some(section) = interfaces.next() else {
        return Err(Unreadable::new("it has no section [Interface]"));
    };
    if let Some(second) = interfaces.next() {
        return Err(Unreadable::at(
            second.line,
            "a second [Interface] begins here",
        ));
    }
    for other in sections
        .iter()
        .filter(|other| !["interface", "peer"].contains(&other.name.as_str()))
    {
        draft.left_out(
            other.line,
            format!("[{}]", other.name),
            "this section means nothing to WireGuard either",
        );
    }
    let peers: Vec<&Section> = sections
        .iter()
        .filter(|section| section.name == "peer")
        .collect();
    if peers.is_empty() || peers.len() > PEERS {
        let reason = format!("it needs 1 to {PEERS} peers, and has {}", peers.len());
        return Err(Unreadable::new(reason));
    }

    let interface = Interface::new(section, draft)?;
    let mut gateways = Vec::new();
    let mut hosts = Vec::new();
    for (index, section) in peers.into_iter().enumerate() {
        let Some(peer) = Peer::new(section, index, draft) else {
            continue;
        };
        match peer.is_host() {
            true => hosts.push(peer),
            false => gateways.push(peer),
        }
    }
    if gateways.is_empty() && hosts.is_empty() {
        return Err(Unreadable::new("none of its peers can be converted"));
    }
    lead_out(&interface, &gateways, draft);
    take_in(&interface, &hosts, draft);
    Ok(())
}

/// This end.
struct Interface {
    line: u32,
    key_file: String,
    port: String,
    addresses: Vec<IpNet>,
    mtu: Option<u16>,
    masquerades: bool,
}

impl Interface {
    fn new(section: &Section, draft: &mut Draft) -> Result<Self, Unreadable> {
        let Some(key) = section.value("privatekey") else {
            return Err(Unreadable::at(
                section.line,
                "[Interface] has no PrivateKey",
            ));
        };
        let key_file = "wireguard.key".to_owned();
        draft.files.push(secret(&key_file, &key.value));

        let mut addresses = Vec::new();
        for (line, text) in section.parts("address") {
            match prefix(text) {
                Some(address) => addresses.push(address),
                None => draft.left_out(line, "Address", format!("`{text}` is not an address")),
            }
        }
        if addresses.is_empty() {
            return Err(Unreadable::at(section.line, "[Interface] has no Address"));
        }
        for family in [true, false] {
            let mut of_family = addresses
                .iter()
                .filter(|one| one.addr().is_ipv4() == family);
            if let Some(second) = of_family.nth(1) {
                let reason = format!("{second}: a device has one address of each family");
                draft.left_out(section.line, "Address", reason);
            }
        }
        addresses.sort_by_key(|address| !address.addr().is_ipv4());
        addresses.dedup_by_key(|address| address.addr().is_ipv4());

        let masquerades = section.settings.iter().any(|setting| {
            setting.key == "postup" && setting.value.to_ascii_lowercase().contains("masquerade")
        });
        for setting in &section.settings {
            note_setting(setting, masquerades, draft);
        }
        let mtu = section
            .value("mtu")
            .and_then(|setting| setting.value.parse().ok());
        Ok(Self {
            line: section.line,
            key_file,
            port: section
                .value("listenport")
                .map_or(PORT.to_owned(), |setting| setting.value.clone()),
            addresses,
            mtu: mtu.filter(|mtu| *mtu >= 1280),
            masquerades,
        })
    }
}

/// Notes a setting of [Interface] that has no counterpart.
fn note_setting(setting: &Setting, masquerades: bool, draft: &mut Draft) {
    let reason = match setting.key.as_str() {
        "privatekey" | "address" | "listenport" | "mtu" => return,
        "dns" => {
            "write it as `nameserver` into /etc/resolv.conf, or have it answered by `dns` of a device"
        }
        "table" | "fwmark" => {
            "routes of a device are in tables of their own, and a node's own traffic passes by them"
        }
        "postup" if masquerades => "it became `nat`; its other effects are left out",
        "preup" | "postup" | "predown" | "postdown" => {
            "a node runs no commands; let its unit of systemd do it"
        }
        "saveconfig" => "a node writes no configuration",
        _ => "this key is not known",
    };
    draft.left_out(setting.line, &setting.written, reason);
}

/// The other end.
struct Peer {
    line: u32,
    number: usize,
    public_key: String,
    allowed: Vec<IpNet>,
    endpoint: Option<String>,
    keepalive: Option<u64>,
    preshared_file: Option<String>,
}

impl Peer {
    fn new(section: &Section, index: usize, draft: &mut Draft) -> Option<Self> {
        let number = index + 1;
        let Some(key) = section.value("publickey") else {
            draft.left_out(section.line, "[Peer]", "it has no PublicKey");
            return None;
        };
        let mut allowed = Vec::new();
        for (line, text) in section.parts("allowedips") {
            match prefix(text) {
                Some(prefix) => allowed.push(prefix.trunc()),
                None => draft.left_out(line, "AllowedIPs", format!("`{text}` is not a prefix")),
            }
        }
        if allowed.is_empty() {
            draft.left_out(
                section.line,
                "[Peer]",
                "it has no AllowedIPs, so that nothing passes",
            );
            return None;
        }

        let preshared_file = section.value("presharedkey").map(|key| {
            let name = format!("wireguard-peer{number}.psk");
            draft.files.push(secret(&name, &key.value));
            name
        });
        for setting in &section.settings {
            let is_known = [
                "publickey",
                "allowedips",
                "endpoint",
                "persistentkeepalive",
                "presharedkey",
            ]
            .contains(&setting.key.as_str());
            if !is_known {
                draft.left_out(setting.line, &setting.written, "this key is not known");
            }
        }
        Some(Self {
            line: section.line,
            number,
            public_key: key.value.clone(),
            allowed,
            endpoint: section
                .value("endpoint")
                .and_then(|setting| endpoint(setting, draft)),
            keepalive: section
                .value("persistentkeepalive")
                .and_then(|setting| setting.value.parse().ok())
                .filter(|seconds| *seconds > 0),
            preshared_file,
        })
    }

    /// Whether it is one host and no gateway to others.
    fn is_host(&self) -> bool {
        let is_single = |prefix: &IpNet| prefix.prefix_len() == prefix.max_prefix_len();
        let count = |is_ipv4| {
            self.allowed
                .iter()
                .filter(|one| one.addr().is_ipv4() == is_ipv4)
                .count()
        };
        self.allowed.iter().all(is_single)
            && count(true) <= 1
            && count(false) <= 1
            && self.endpoint.is_none()
    }

    /// The keys of `wireguard`.
    fn json(&self, interface: &Interface) -> Json {
        let is_ipv6 = self
            .endpoint
            .as_ref()
            .is_some_and(|endpoint| endpoint.starts_with('['));
        let any = if is_ipv6 { "[::]" } else { "0.0.0.0" };
        let mut peer = json!({ "public_key": self.public_key });
        if let Some(endpoint) = &self.endpoint {
            peer["endpoint"] = json!(endpoint);
        }
        peer["allowed"] = one_or_many(
            self.allowed
                .iter()
                .map(|prefix| json!(prefix.to_string()))
                .collect(),
        );
        if let Some(seconds) = self.keepalive {
            peer["keepalive"] = json!(format!("{seconds}s"));
        }
        if let Some(file) = &self.preshared_file {
            peer["preshared_key_file"] = json!(file);
        }
        json!({
            "listen": format!("{any}:{}", interface.port),
            "private_key_file": interface.key_file,
            "peer": peer,
        })
    }
}

fn endpoint(setting: &Setting, draft: &mut Draft) -> Option<String> {
    if setting.value.parse::<std::net::SocketAddr>().is_ok() {
        return Some(setting.value.clone());
    }
    let reason = format!(
        "`{}` is not an address: names are not looked up for WireGuard, and the peer is found once it has begun; write its address",
        setting.value
    );
    draft.left_out(setting.line, "Endpoint", reason);
    None
}

/// An address with or without the length of its network.
fn prefix(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| {
        text.parse()
            .ok()
            .map(|address: std::net::IpAddr| address.into())
    })
}

fn secret(name: &str, text: &str) -> NewFile {
    NewFile {
        name: name.to_owned(),
        content: NewFileContent::Secret(format!("{text}\n")),
    }
}

fn texts(prefixes: &[IpNet]) -> Json {
    json!(prefixes.iter().map(IpNet::to_string).collect::<Vec<_>>())
}

/// Packets of this machine and the hosts to the networks of peers.
fn lead_out(interface: &Interface, gateways: &[Peer], draft: &mut Draft) {
    if gateways.is_empty() {
        return;
    }
    let mut pools = Vec::new();
    for address in &interface.addresses {
        match pool::around(*address) {
            Some(pool) => pools.push(json!(pool.to_string())),
            None => {
                let reason = format!(
                    "{address} cannot be had: it is among the first addresses of every network around it"
                );
                draft.left_out(interface.line, "Address", reason);
            }
        }
    }
    if pools.is_empty() {
        return;
    }

    let name = draft.name("wg0");
    let mut tun = json!({ "name": name, "addresses": texts(&interface.addresses) });
    if let Some(mtu) = interface.mtu {
        tun["mtu"] = json!(mtu);
    }
    match gateways {
        [only] => tun["routes"] = texts(&only.allowed),
        several => {
            tun["tunnels"] = json!({});
            for peer in several {
                let set = json!({ "x-hermes-peer": format!("peer{}", peer.number) });
                tun["tunnels"][format!("peer{}", peer.number)] =
                    json!({ "prefixes": texts(&peer.allowed), "set": set });
            }
        }
    }
    draft.listeners.insert(name.clone(), json!({ "tun": tun }));

    for peer in gateways {
        let mut matched = json!({ "kind": "connect-ip" });
        if gateways.len() > 1 {
            matched["fields"] = json!({ "x-hermes-peer": format!("peer{}", peer.number) });
        }
        let mut end = json!({ "tun": format!("peer{}", peer.number), "pool": one_or_many(pools.clone()), "routes": texts(&peer.allowed) });
        if let Some(mtu) = interface.mtu {
            end["mtu"] = json!(mtu);
        }
        end["wireguard"] = peer.json(interface);
        matched["listener"] = json!(name);
        let route = json!({ "match": matched, "terminate": end });
        draft.route(Rank::Tunnel, peer.line, route);
    }
}

/// Packets of hosts, which leave by a device of this machine.
fn take_in(interface: &Interface, hosts: &[Peer], draft: &mut Draft) {
    if hosts.is_empty() {
        return;
    }
    let networks: Vec<IpNet> = interface.addresses.iter().map(IpNet::trunc).collect();
    let listeners = hosts
        .iter()
        .map(|peer| json!(host_listener(interface, peer, &networks, draft)))
        .collect();

    let device = draft.name("wg0");
    let pool = networks.iter().map(|network| json!(network.to_string()));
    let mut end = json!({ "tun": device, "pool": one_or_many(pool.collect()) });
    if interface.masquerades {
        end["nat"] = json!(true);
    }
    let matched = json!({ "kind": "connect-ip", "listener": one_or_many(listeners) });
    let route = json!({ "match": matched, "terminate": end });
    draft.route(Rank::Tunnel, interface.line, route);

    for address in &interface.addresses {
        let own = format!("{}/{}", address.addr(), address.max_prefix_len());
        draft.egress.push(own);
    }
    let reason = "hosts do not reach each other; `client_to_client: true` lets them";
    draft.differs(interface.line, "[Interface]", reason);
}

/// The listener of one host; its name.
fn host_listener(
    interface: &Interface,
    peer: &Peer,
    networks: &[IpNet],
    draft: &mut Draft,
) -> String {
    let name = draft.name(&format!("peer{}", peer.number));
    let within = |address: &IpNet| {
        let network = networks
            .iter()
            .find(|network| network.contains(&address.addr()));
        let length = network.map_or(address.prefix_len(), IpNet::prefix_len);
        format!("{}/{length}", address.addr())
    };
    let addresses: Vec<String> = peer.allowed.iter().map(within).collect();
    let mut tun = json!({ "name": name, "addresses": addresses });

    let is_given = peer.allowed.iter().all(|address| {
        let mut networks = networks.iter();
        networks.any(|network| pool::is_given_by(address.addr(), *network))
    });
    if !is_given {
        tun["other_address"] = json!("nat");
        let reason = "its address is not one that the pool gives out, so packets get another one on their way";
        draft.differs(peer.line, "[Peer]", reason);
    }
    if let Some(mtu) = interface.mtu {
        tun["mtu"] = json!(mtu);
    }
    tun["wireguard"] = peer.json(interface);
    let listener = json!({ "tun": tun, "user": name });
    draft.listeners.insert(name.clone(), listener);
    name
}
