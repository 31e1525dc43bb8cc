//! Requests with a role, through a pair of nodes, through a pair of nginx, and directly.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::bench::{CaseBench, START_LIMIT, STEP, client_tls, server_tls};
use super::nginx;
use crate::origin;
use crate::peers::ports;
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::Figure;
use crate::report::Sheet;

/// Roles, and whether each reaches the site and its administration.
const MATRIX: [(&str, [bool; 2]); 3] = [
    ("member", [true, false]),
    ("admin", [true, true]),
    ("guest", [false, false]),
];

/// The site and its administration.
const SITES: [&str; 2] = ["web.lab", "admin.lab"];

/// The site that is asked for, and the role of the client.
#[derive(Clone, Copy)]
struct Visit {
    site: &'static str,
    role: &'static str,
}

/// A request that all systems allow.
const MEMBER: Visit = Visit {
    site: SITES[0],
    role: "member",
};

/// Where clients enter a system.
struct SiteEntry {
    name: &'static str,
    address: SocketAddr,
    /// Whether it asks for a role.
    has_policy: bool,
}

pub(super) fn measure(
    case: &CaseBench<'_>,
    progress: &mut Progress,
    sheet: &mut Sheet,
) -> Result<()> {
    let bench = case.papers;
    let (_origin, origin) = origin::start(bench.folder())?;
    let hermes = [ports::free()?, ports::free()?];
    let nginx = [ports::free()?, ports::free()?];
    let mut processes = vec![
        bench.node(None, "gate", &gate(case.pki, hermes[1], origin.http))?,
        bench.node(None, "entry", &entry(case.pki, hermes))?,
    ];
    processes.extend(nginx::pair(bench, nginx, origin.http)?);
    let entries = [
        SiteEntry {
            name: "direct",
            address: origin.http,
            has_policy: false,
        },
        SiteEntry {
            name: "nginx",
            address: nginx[0],
            has_policy: true,
        },
        SiteEntry {
            name: "hermes",
            address: hermes[0],
            has_policy: true,
        },
    ];

    for entry in &entries {
        ready(entry, &mut processes)?;
        if entry.has_policy {
            check_matrix(entry)?;
        }
    }
    for round in 0..bench.options.rounds.repeats {
        progress.step(&format!("requests, round {round}"));
        for size in case.sizes {
            for entry in &entries {
                let (status, took) = curl(entry.address, MEMBER, size << 20)?;
                ensure!(status == 206, "{}: answered with {status}", entry.name);
                let name = format!("request of {size} MB");
                sheet.add(&name, entry.name, Figure::less("time", "ms"), took);
            }
        }
    }
    Ok(())
}

fn ready(entry: &SiteEntry, processes: &mut [Process]) -> Result<()> {
    let begin = Instant::now();
    while !matches!(curl(entry.address, MEMBER, 1), Ok((206, _))) {
        for process in processes.iter_mut() {
            process.check()?;
        }
        let logs: String = processes.iter().map(Process::log).collect();
        ensure!(
            begin.elapsed() < START_LIMIT,
            "{} does not start: {logs}",
            entry.name
        );
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// Checks that every role reaches the sites that the rules allow, and no other.
fn check_matrix(entry: &SiteEntry) -> Result<()> {
    for (role, allowed) in MATRIX {
        for (site, is_allowed) in SITES.into_iter().zip(allowed) {
            let (status, _) = curl(entry.address, Visit { site, role }, 1)?;
            let expected = if is_allowed { 206 } else { 403 };
            ensure!(
                status == expected,
                "{}: {role} at {site}: {status}, not {expected}",
                entry.name
            );
        }
    }
    Ok(())
}

/// A download by curl: the status, and milliseconds from the connection to the last byte.
fn curl(to: SocketAddr, visit: Visit, bytes: u64) -> Result<(u16, f64)> {
    let output = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total}"])
        .args(["-x", &format!("http://{to}")])
        .args(["-H", &format!("x-role: {}", visit.role)])
        .args(["-r", &format!("0-{}", bytes - 1)])
        .arg(format!("http://{}/bulk", visit.site))
        .stdin(Stdio::null())
        .output()
        .context("curl")?;
    let figures = String::from_utf8_lossy(&output.stdout).into_owned();
    let (status, time) = figures.split_once(' ').context(figures.clone())?;
    Ok((status.parse()?, time.parse::<f64>()? * 1e3))
}

/// The node beside the clients. The role stands for a login that the paper's clients have, in all systems alike.
fn entry(pki: &Pki, [listen, next]: [SocketAddr; 2]) -> String {
    format!(
        "fields: [user, x-role]\nlisteners: {{ web: {{ http: \"{listen}\", accepts: [x-role] }} }}\nroutes: [ {{ to: gate }} ]\n\
         upstreams: {{ gate: {{ endpoints: [\"{next}\"], http: 1, tls: {{ {} }} }} }}\n",
        client_tls(pki)
    )
}

/// The node beside the site.
fn gate(pki: &Pki, listen: SocketAddr, site: SocketAddr) -> String {
    format!(
        "fields: [user, x-role]\nlisteners: {{ overlay: {{ http: \"{listen}\", auth: mtls, tls: {{ {} }} }} }}\n\
         peers: {{ entry: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         policy:\n  default: deny\n  rules:\n    \
         - {{ name: members, match: {{ target: web.lab, fields: {{ x-role: member }} }}, allow: true }}\n    \
         - {{ name: admins, match: {{ fields: {{ x-role: admin }} }}, allow: true }}\n\
         routes: [ {{ terminate: site }} ]\nupstreams: {{ site: {{ endpoints: [\"{site}\"] }} }}\n",
        server_tls(pki)
    )
}
