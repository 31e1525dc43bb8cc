//! Two nodes of Hermes: a dependent proxy beside the client, a standalone one beside the origin.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::ports;
use super::surroundings::{Started, Surroundings, THREADS, UDP_IDLE};
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

/// CONNECT-UDP sessions of the one user of all clients: those of a series of bursts that have not fallen idle when the
/// next begins. The usual bound is one user's.
const SESSIONS: usize = 100_000;

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let clear = ports::free()?;
    let secure = ports::free()?;
    let (dependent, entries) = dependent(&around.pki, clear, secure)?;
    let standalone = standalone(around, clear, secure);

    let processes = [("standalone", standalone), ("dependent", dependent)].map(|(name, yaml)| {
        let file = folder.join(format!("{name}.yaml"));
        let general = format!(
            "version: 1\nworkers: {THREADS}\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\n"
        );
        fs::write(&file, general + &yaml)?;
        Process::start(name, folder, &around.programs.hermes, &["run".as_ref(), file.as_os_str()])
    });

    Ok((processes.into_iter().collect::<Result<_>>()?, entries))
}

fn dependent(
    pki: &Pki,
    clear: SocketAddr,
    secure: SocketAddr,
) -> Result<(String, Vec<(Link, Entry)>)> {
    let mut listeners = String::new();
    let mut routes = String::new();
    let mut entries = Vec::new();

    for link in Link::ALL {
        for kind in [Kind::Http, Kind::Tcp, Kind::Udp] {
            let name = format!("{}-{}", kind.name(), link.name());
            let address = ports::free()?;
            let target = match kind {
                Kind::Http | Kind::Connect => "",
                Kind::Tcp => ", target: \"tcp.lab:7\"",
                Kind::Udp => ", target: \"udp.lab:7\"",
            };

            listeners += &format!("  {name}: {{ {}: \"{address}\"{target} }}\n", kind.name());
            routes += &format!(
                "  - {{ match: {{ listener: {name} }}, to: {} }}\n",
                link.name()
            );
            entries.push((
                link,
                Entry {
                    kind,
                    address,
                    asks: false,
                },
            ));

            if kind == Kind::Http {
                entries.push((
                    link,
                    Entry {
                        kind: Kind::Connect,
                        address,
                        asks: true,
                    },
                ));
            }
        }
    }

    let ca = pki.ca();
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);

    let tls = format!(
        "ca_file: {}, cert_file: {}, key_file: {}, server_name: {PROXY}",
        ca.display(),
        cert.display(),
        key.display()
    );

    let timeouts = format!("timeouts: {{ udp: {UDP_IDLE} }}");
    let upstreams = format!(
        "  h1: {{ endpoints: [\"{clear}\"], http: 1, {timeouts} }}\n  h2: {{ endpoints: [\"{clear}\"], http: 2, {timeouts} }}\n  \
         tls: {{ endpoints: [\"{secure}\"], tls: {{ {tls} }}, {timeouts} }}\n  \
         picked: {{ endpoints: [\"{clear}\"], http: [2, 1], {timeouts} }}\n  \
         h3: {{ endpoints: [\"{secure}\"], http: 3, tls: {{ {tls} }}, {timeouts} }}\n"
    );
    let yaml = format!(
        "identity: {{ user: bench }}\nlisteners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}"
    );

    Ok((yaml, entries))
}

fn standalone(around: &Surroundings, clear: SocketAddr, secure: SocketAddr) -> String {
    let origin = &around.origin;
    let ca = around.pki.ca();
    let cert = around.pki.cert(PROXY);
    let key = around.pki.key(PROXY);

    let tls = format!(
        "cert_file: {}, key_file: {}, client_ca_file: {}",
        cert.display(),
        key.display(),
        ca.display()
    );

    let limits = format!("limits: {{ sessions_per_user: {SESSIONS} }}");
    format!(
        "listeners:\n  clear: {{ http: \"{clear}\", insecure_trust: [127.0.0.0/8], {limits} }}\n  \
         secure: {{ http: \"{secure}\", auth: mtls, tls: {{ {tls} }}, {limits} }}\n\
         peers: {{ dependent: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         routes:\n  - {{ match: {{ target: web.lab }}, terminate: web }}\n  \
         - {{ match: {{ target: tls.lab }}, terminate: tls }}\n  - {{ match: {{ target: tcp.lab }}, terminate: tcp }}\n  \
         - {{ match: {{ target: udp.lab }}, terminate: udp }}\n\
         upstreams:\n  web: {{ endpoints: [\"{}\"] }}\n  tls: {{ endpoints: [\"{}\"] }}\n  tcp: {{ endpoints: [\"{}\"] }}\n  \
         udp: {{ endpoints: [\"{}\"], timeouts: {{ udp: {UDP_IDLE} }} }}\n",
        origin.http, origin.tls, origin.tcp, origin.udp
    )
}
