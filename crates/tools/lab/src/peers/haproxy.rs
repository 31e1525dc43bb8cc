//! Two HAProxys. They carry HTTP over HTTP/1.1 and HTTP/2; they end no tunnels.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::ports;
use super::surroundings::{Started, Surroundings, THREADS};
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let entry1 = ports::free()?;
    let entry2 = ports::free()?;
    let link1 = ports::free()?;
    let link2 = ports::free()?;
    let web = around.origin.http;
    let standalone = hop("h1", link1, "", web, "") + &hop("h2", link2, " proto h2", web, "");
    let dependent = hop("h1", entry1, "", link1, "") + &hop("h2", entry2, "", link2, " proto h2");

    let processes = [("standalone", standalone), ("dependent", dependent)].map(|(name, hops)| {
        let file = folder.join(format!("{name}.cfg"));
        fs::write(&file, general() + &hops)?;
        let arguments = [
            "-q".as_ref(),
            "-db".as_ref(),
            "-f".as_ref(),
            file.as_os_str(),
        ];

        Process::start(name, folder, &around.programs.haproxy, &arguments)
    });

    let entry = |address| Entry {
        kind: Kind::Http,
        address,
        asks: false,
    };

    let entries = vec![(Link::H1, entry(entry1)), (Link::H2, entry(entry2))];
    Ok((processes.into_iter().collect::<Result<_>>()?, entries))
}

fn general() -> String {
    format!(
        "global\n  nbthread {THREADS}\n  maxconn 9500\ndefaults\n  mode http\n  http-reuse always\n  \
         timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
    )
}

fn hop(name: &str, listen: SocketAddr, listens: &str, to: SocketAddr, speaks: &str) -> String {
    format!("listen {name}\n  bind {listen}{listens} backlog 4096\n  server next {to}{speaks}\n")
}
