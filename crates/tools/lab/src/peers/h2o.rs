//! Two h2o. They carry HTTP over HTTP/1.1 only, which is what h2o speaks to upstreams.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::ports;
use super::surroundings::{Started, Surroundings, THREADS};
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let first = ports::free()?;
    let second = ports::free()?;
    let hops = [
        ("standalone", second, around.origin.http),
        ("dependent", first, second),
    ];

    let processes = hops.map(|(name, listen, to)| {
        let file = folder.join(format!("{name}.conf"));
        fs::write(&file, configuration(listen, to))?;
        let arguments = [
            "-m".as_ref(),
            "worker".as_ref(),
            "-c".as_ref(),
            file.as_os_str(),
        ];

        Process::start(name, folder, &around.programs.h2o, &arguments)
    });

    let entry = Entry {
        kind: Kind::Http,
        address: first,
        asks: false,
    };

    Ok((
        processes.into_iter().collect::<Result<_>>()?,
        vec![(Link::H1, entry)],
    ))
}

/// Time-outs are in milliseconds; connections are kept for as long as those of the others.
fn configuration(listen: SocketAddr, to: SocketAddr) -> String {
    let host = listen.ip();
    let port = listen.port();
    format!(
        "num-threads: {THREADS}\nmax-connections: 9500\nhttp1-request-timeout: 60\nlisten: {{ host: {host}, port: {port} }}\n\
         hosts:\n  default:\n    paths:\n      /:\n        proxy.reverse.url: \"http://{to}/\"\n        \
         proxy.preserve-host: ON\n        proxy.timeout.keepalive: 60000\n"
    )
}
