//! masque-go on both sides: one hop of datagrams.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{Around, HopEntry, StartedChains};
use crate::hops::network::{origin_address, proxy_address};
use crate::hops::plan::Way;
use crate::pki::PROXY;
use crate::process::Process;

/// Where the proxy listens.
const PORT: u16 = 4435;
/// Where datagrams enter.
const ENTRY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7200);

pub fn start(around: &Around<'_>, folder: &Path) -> StartedChains {
    let program = &around.programs.masque_go;
    let pki = around.pki;
    let proxy = SocketAddr::from((proxy_address(1), PORT)).to_string();
    let origin = SocketAddr::from((origin_address(1), around.origin.udp.port())).to_string();
    let ca = pki.ca();
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let entry = ENTRY.to_string();

    let server = [
        "relay".as_ref(),
        cert.as_os_str(),
        key.as_os_str(),
        proxy.as_ref(),
    ];

    let server = Process::start_in(
        Some(around.network.proxy(1)?),
        "proxy1",
        folder,
        program,
        &server,
    )?;

    let words = [
        ca.as_os_str(),
        proxy.as_ref(),
        PROXY.as_ref(),
        entry.as_ref(),
        origin.as_ref(),
    ];

    let words: Vec<_> = std::iter::once("entry".as_ref()).chain(words).collect();
    let client = Process::start_in(
        Some(around.network.client()?),
        "client",
        folder,
        program,
        &words,
    )?;

    Ok((
        vec![client, server],
        vec![HopEntry {
            way: Way::Forwarded,
            hops: 1,
            udp: ENTRY,
            http: ENTRY,
            host: String::new(),
        }],
    ))
}
