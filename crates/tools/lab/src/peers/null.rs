//! The null pair: our own two forwarders.

use std::path::Path;

use anyhow::Result;

use super::ports;
use super::surroundings::{Started, Surroundings};
use crate::forwarder::Mode;
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

/// The work of each forwarder for a kind and a link: beside the client, then beside the origin.
const WAYS: [(Kind, Link, Mode, Mode); 7] = [
    (Kind::Http, Link::H1, Mode::Kept, Mode::Plain),
    (Kind::Http, Link::H2, Mode::Join, Mode::SplitKept),
    (Kind::Connect, Link::H1, Mode::Plain, Mode::Plain),
    (Kind::Connect, Link::H2, Mode::Join, Mode::Split),
    (Kind::Tcp, Link::H1, Mode::Plain, Mode::Plain),
    (Kind::Tcp, Link::H2, Mode::Join, Mode::Split),
    (Kind::Udp, Link::H2, Mode::JoinUdp, Mode::SplitUdp),
];

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let origin = &around.origin;
    let mut entries = Vec::new();
    let mut first = Vec::new();
    let mut second = Vec::new();

    for (kind, link, beside_client, beside_origin) in WAYS {
        let target = match kind {
            Kind::Http => origin.http,
            Kind::Connect => origin.tls,
            Kind::Tcp => origin.tcp,
            Kind::Udp => origin.udp,
        };

        let address = ports::free()?;
        let between = ports::free()?;
        first.push(format!("{beside_client}={address}={between}"));
        second.push(format!("{beside_origin}={between}={target}"));
        entries.push((
            link,
            Entry {
                kind,
                address,
                asks: false,
            },
        ));
    }

    let program = std::env::current_exe()?;
    let start = |name, ways: Vec<String>| {
        let arguments: Vec<_> = std::iter::once("forwarder".to_owned())
            .chain(ways)
            .collect();
        Process::start(name, folder, &program, &arguments)
    };

    let processes: Result<_> = [("standalone", second), ("dependent", first)]
        .into_iter()
        .map(|(n, w)| start(n, w))
        .collect();

    Ok((processes?, entries))
}
