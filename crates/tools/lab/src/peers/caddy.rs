//! Two Caddys. They carry HTTP over HTTP/1.1 and HTTP/2; they end no tunnels.

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
    let standalone = hop(link1, "", web) + &hop(link2, "", web);
    let dependent = hop(entry1, "", link1) + &hop(entry2, "h2c://", link2);

    let processes = [("standalone", standalone), ("dependent", dependent)].map(|(name, hops)| {
        let file = folder.join(format!("{name}.Caddyfile"));
        fs::write(&file, GENERAL.to_owned() + &hops)?;
        let threads = format!("GOMAXPROCS={THREADS}");
        // It keeps a copy of its configuration below its home.
        let home = format!("HOME={}", folder.display());
        let arguments = [
            threads.as_ref(),
            home.as_ref(),
            around.programs.caddy.as_os_str(),
            "run".as_ref(),
            "--adapter".as_ref(),
            "caddyfile".as_ref(),
            "--config".as_ref(),
            file.as_os_str(),
        ];

        Process::start(name, folder, Path::new("env"), &arguments)
    });

    let entry = |address| Entry {
        kind: Kind::Http,
        address,
        asks: false,
    };

    let entries = vec![(Link::H1, entry(entry1)), (Link::H2, entry(entry2))];
    Ok((processes.into_iter().collect::<Result<_>>()?, entries))
}

/// Clear HTTP/2 is off unless it is asked for.
const GENERAL: &str = "{\n  admin off\n  auto_https off\n  log {\n    level ERROR\n  }\n  \
     servers {\n    protocols h1 h2c\n  }\n}\n";

fn hop(listen: SocketAddr, speaks: &str, to: SocketAddr) -> String {
    format!(
        "http://:{} {{\n  bind {}\n  reverse_proxy {speaks}{to} {{\n    transport http {{\n      \
         keepalive_idle_conns_per_host 1024\n    }}\n  }}\n}}\n",
        listen.port(),
        listen.ip()
    )
}
