//! Tunnels for IP with a device each, on one connection between two nodes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::PaperBench;
use super::line::load_in;
use crate::experiment::Measured;
use crate::origin;
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, median};
use crate::topology::{Plug, Topology};
use crate::traffic::bulk::Download;
use crate::traffic::{Client, Entry, Kind};

pub(super) const HEAD: PageHead = PageHead {
    title: "Tunnels with a device each",
    command: "papers tunnels",
    notes: "",
    words: "So many tunnels for IP, each from a TUN device of its own at the client's node, over one connection of HTTP/3 to the node at the server: \
            a download of TCP in each of them at once, and then requests in each, one after the other.",
};

/// Tunnels.
const LONG: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];
const SHORT: &[u32] = &[1, 8, 32];

/// The ends of the cable.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 92, 0, 2);

/// How long all tunnels may take to be there.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long bytes flow.
const FLOWS: Duration = Duration::from_secs(2);
const FLOWS_SHORT: Duration = Duration::from_millis(500);

/// Requests of each tunnel.
const TRIPS: usize = 20;

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let counts = if bench.options.rounds.short {
        SHORT
    } else {
        LONG
    };
    let mut sheet = Sheet::default();
    let mut progress = Progress::new(counts.len() * bench.options.rounds.repeats as usize);
    for _ in 0..bench.options.rounds.repeats {
        for count in counts {
            let case = format!("{count} tunnels");
            progress.step(&case);
            match once(bench, *count) {
                Ok(measured) => {
                    for (figure, value) in measured {
                        sheet.add(&case, "hermes", figure, value);
                    }
                }
                Err(error) => sheet.failures.push(format!("{case}: {error:#}")),
            }
        }
    }
    progress.end();
    Ok(sheet)
}

/// The server's address in the tunnel of this number.
fn server(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 93, 0, 1).to_bits() + (number << 8))
}

/// A client's network and a server's, which has an address for each tunnel.
fn lay(count: u32) -> Result<Topology> {
    let mut topology = Topology::new();
    for name in ["near", "far"] {
        topology.add(name)?;
    }
    let addresses = [NEAR, FAR].map(|address| format!("{address}/24"));
    let plug = |namespace, address| Plug { namespace, address };
    topology.cable(plug("near", &addresses[0]), plug("far", &addresses[1]))?;

    let far = topology.namespace("far")?;
    for number in 0..count {
        let address = format!("{}/32", server(number));
        far.run(&["ip", "address", "add", &address, "dev", "lo"])?;
    }
    Ok(topology)
}

fn once(bench: &PaperBench<'_>, count: u32) -> Result<Measured> {
    let topology = lay(count)?;
    let far = topology.namespace("far")?;
    let near = topology.namespace("near")?;
    let folder = tempfile::tempdir_in(bench.folder())?;
    let pki = Pki::create(folder.path())?;
    let client = Client::new(pki.client()?)?;
    let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let (_origin, origin) = origin::start_in(Some(far), anywhere, folder.path())?;
    let nodes = [
        bench.node(Some(far), "far", &far_yaml(&pki, count))?,
        bench.node(Some(near), "near", &near_yaml(&pki, count))?,
    ];

    let entries = |kind, port: u16| -> Vec<Entry> {
        let entry = |number| Entry {
            kind,
            address: (server(number), port).into(),
            asks: false,
        };
        (0..count).map(entry).collect()
    };
    let requests = entries(Kind::Http, origin.http.port());
    let flows = entries(Kind::Tcp, origin.tcp.port());
    let time = match bench.options.rounds.short {
        true => FLOWS_SHORT,
        false => FLOWS,
    };
    load_in(near, async || {
        for entry in &requests {
            ready(&client, entry, &nodes).await?;
        }
        let mut measured = carried(&flows, time, &nodes).await?;
        let trip = trips(&client, &requests).await?;
        measured.push((Figure::less("round trip", "us"), trip));
        Ok(measured)
    })
}

/// The load that all tunnels carry at once, and its cost.
async fn carried(flows: &[Entry], time: Duration, nodes: &[Process]) -> Result<Measured> {
    let used = || nodes.iter().map(Process::processor_time).sum::<Duration>();
    let before = used();
    let bytes = downloads(flows, time).await?;
    let used = used().saturating_sub(before).as_secs_f64();

    let rate = bytes as f64 * 8.0 / 1e6 / time.as_secs_f64();
    Ok(vec![
        (Figure::more("throughput", "Mbit/s"), rate),
        (
            Figure::less("processor time", "CPU s/GB"),
            used / (bytes as f64 / 1e9),
        ),
    ])
}

/// Waits until a request is answered through a tunnel.
async fn ready(client: &Client, entry: &Entry, nodes: &[Process]) -> Result<()> {
    let begin = Instant::now();
    while let Err(error) = client.once(entry).await {
        if begin.elapsed() > START_LIMIT {
            let logs: String = nodes.iter().map(Process::log).collect();
            return Err(error.context(format!("{}: {logs}", entry.address)));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// How many bytes come through all tunnels at once.
async fn downloads(entries: &[Entry], time: Duration) -> Result<u64> {
    let mut open = Vec::new();
    for entry in entries {
        open.push(Download::start(entry).await?);
    }
    let mut flows = JoinSet::new();
    for mut download in open {
        flows.spawn(async move { download.read_for(time).await });
    }
    let mut bytes = 0;
    while let Some(done) = flows.join_next().await {
        bytes += done.context("a download")??;
    }
    ensure!(bytes > 0, "no byte came");
    Ok(bytes)
}

/// The middle of all round trips, in microseconds.
async fn trips(client: &Client, entries: &[Entry]) -> Result<f64> {
    let mut times = Vec::new();
    for entry in entries {
        let mut session = client.open(entry).await?;
        for _ in 0..TRIPS {
            let begin = Instant::now();
            session.exchange().await?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(median(&times))
}

fn near_yaml(pki: &Pki, count: u32) -> String {
    let listeners: String = (0..count)
        .map(|number| {
            let address = server(number);
            format!("  vpn{number}: {{ tun: {{ name: hermes{number}, queues: 1, routes: [{address}/32] }} }}\n")
        })
        .collect();
    format!(
        "identity: {{ user: lab }}\nlisteners:\n{listeners}routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{FAR}:8443\"], http: 3, tls: {{ ca_file: {}, server_name: {PROXY} }} }} }}\n",
        pki.ca().display()
    )
}

fn far_yaml(pki: &Pki, count: u32) -> String {
    let own: Vec<String> = (0..count)
        .map(|number| format!("{}/32", server(number)))
        .collect();
    format!(
        "listeners: {{ overlay: {{ http: \"{FAR}:8443\", public: true, tls: {{ cert_file: {}, key_file: {} }} }} }}\n\
         routes: [ {{ match: {{ kind: connect-ip }}, terminate: {{ tun: hermes-far, pool: 10.94.0.0/16, routes: [10.93.0.0/16] }} }} ]\n\
         egress: {{ allow: [{}] }}\n",
        pki.cert(PROXY).display(),
        pki.key(PROXY).display(),
        own.join(", ")
    )
}
