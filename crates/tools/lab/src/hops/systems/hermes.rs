//! Nodes of Hermes: a dependent proxy beside the client, standalone ones in the row.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;

use super::{Around, HopEntry, StartedChains, THREADS, UDP_IDLE, write};
use crate::hops::network::{HOPS, origin_address, proxy_address};
use crate::hops::plan::Way;
use crate::pki::{PROXY, Pki};
use crate::process::Process;

/// Where the proxies listen; their namespaces are theirs alone.
const PORT: u16 = 4433;
/// The first ports of the entries for datagrams and for requests.
const UDP: u16 = 7000;
const HTTP: u16 = 8000;
/// The entry of the traced chain.
const TRACED: (SocketAddr, SocketAddr) = (
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7099),
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8099),
);
/// Tunnels at once on a connection, in place of 1000.
const STREAMS: u32 = 10_000;
/// CONNECT-UDP sessions of the one user of all clients: those of a series that have not fallen idle yet.
const SESSIONS: usize = 100_000;

pub fn start(around: &Around<'_>, folder: &Path) -> StartedChains {
    let entries = entries();
    let mut processes = Vec::new();
    let client = around.network.client()?;

    for number in 0..=HOPS {
        let (name, yaml, namespace) = match number {
            0 => ("client".to_owned(), dependent(around.pki, &entries), client),
            _ => (
                format!("proxy{number}"),
                standalone(around, number),
                around.network.proxy(number)?,
            ),
        };

        let file = write(folder, &format!("{name}.yaml"), general(&name) + &yaml)?;
        let words = ["run".as_ref(), file.as_os_str()];
        processes.push(Process::start_in(
            Some(namespace),
            &name,
            folder,
            &around.programs.hermes,
            &words,
        )?);
    }

    Ok((processes, entries))
}

/// A proxy beside the client with a single chain, which traces its connections to `folder`.
pub fn traced(around: &Around<'_>, entry: &HopEntry, folder: &Path) -> Result<(Process, HopEntry)> {
    let entry = HopEntry {
        udp: TRACED.0,
        http: TRACED.1,
        ..entry.clone()
    };

    let text = general("traced")
        + "debug: { qlog: qlog }\n"
        + &dependent(around.pki, std::slice::from_ref(&entry));
    let file = write(folder, "traced.yaml", text)?;
    let words = ["run".as_ref(), file.as_os_str()];
    let client = Some(around.network.client()?);

    Ok((
        Process::start_in(client, "traced", folder, &around.programs.hermes, &words)?,
        entry,
    ))
}

fn general(name: &str) -> String {
    format!(
        "version: 1\nnode: {name}\nworkers: {THREADS}\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\n"
    )
}

fn entries() -> Vec<HopEntry> {
    let ways = [(Way::Forwarded, 0), (Way::Nested, 10)];
    let each = ways.into_iter().flat_map(|(way, from)| {
        way.hops()
            .map(move |hops| (way, hops, from + u16::from(hops)))
    });
    let entry = |(way, hops, number)| {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port + number));
        HopEntry {
            way,
            hops,
            udp: at(UDP),
            http: at(HTTP),
            host: host(hops),
        }
    };

    each.map(entry).collect()
}

/// The target of chains that end at the proxy of this number.
fn host(hops: u8) -> String {
    format!("hop{hops}.lab")
}

fn dependent(pki: &Pki, entries: &[HopEntry]) -> String {
    let mut listeners = String::new();
    let mut routes = String::new();
    let mut upstreams = String::new();

    for entry in entries {
        let HopEntry {
            way,
            hops,
            udp,
            http,
            host,
        } = entry;

        let name = format!("{}{hops}", way.name());
        listeners += &format!("  udp-{name}: {{ udp: \"{udp}\", target: \"{host}:7\" }}\n");
        listeners += &format!("  http-{name}: {{ http: \"{http}\" }}\n");
        let passed: Vec<_> = match way {
            Way::Nested => (1..=*hops).map(|number| format!("next{number}")).collect(),
            _ => vec!["next1".to_owned()],
        };

        let listeners = format!("[udp-{name}, http-{name}]");
        routes += &format!(
            "  - {{ match: {{ listener: {listeners} }}, to: [{}] }}\n",
            passed.join(", ")
        );
    }

    for number in 1..=HOPS {
        upstreams += &upstream(pki, number);
    }
    format!(
        "identity: {{ user: bench }}\nlisteners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}"
    )
}

fn upstream(pki: &Pki, number: u8) -> String {
    let ca = pki.ca();
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = ca.display();
    let cert = cert.display();
    let key = key.display();
    let address = SocketAddr::from((proxy_address(number), PORT));

    format!(
        "  next{number}: {{ endpoints: [\"{address}\"], http: 3, timeouts: {{ udp: {UDP_IDLE} }}, \
         tls: {{ ca_file: {ca}, cert_file: {cert}, key_file: {key}, server_name: {PROXY} }} }}\n"
    )
}

fn standalone(around: &Around<'_>, number: u8) -> String {
    let pki = around.pki;
    let ca = pki.ca();
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);

    let tls = format!(
        "cert_file: {}, key_file: {}, client_ca_file: {}",
        cert.display(),
        key.display(),
        ca.display()
    );

    let listen = SocketAddr::from((proxy_address(number), PORT));
    let own = host(number);
    let at = |port: SocketAddr| SocketAddr::from((origin_address(number), port.port()));
    let web = at(around.origin.http);
    let udp = at(around.origin.udp);
    let mut routes = String::new();
    let mut upstreams = String::new();

    if number < HOPS {
        let next = number + 1;
        routes += &format!(
            "  - {{ match: {{ target: \"{}\" }}, terminate: true }}\n",
            proxy_address(next)
        );
        routes += &format!("  - {{ match: {{ target: \"*.lab\" }}, to: next{next} }}\n");
        upstreams += &upstream(pki, next);
    }

    format!(
        "listeners:\n  overlay: {{ http: \"{listen}\", auth: mtls, tls: {{ {tls} }}, \
         limits: {{ sessions_per_user: {SESSIONS}, streams: {STREAMS} }} }}\n\
         peers: {{ before: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\negress: {{ allow: [10.77.0.0/16] }}\n\
         routes:\n  - {{ match: {{ target: {own}, port: 7 }}, terminate: udp }}\n  \
         - {{ match: {{ target: {own} }}, terminate: web }}\n{routes}\
         upstreams:\n{upstreams}  web: {{ endpoints: [\"{web}\"] }}\n  \
         udp: {{ endpoints: [\"{udp}\"], timeouts: {{ udp: {UDP_IDLE} }} }}\n"
    )
}
