//! Head-of-line blocking: exchanges that share a link between two nodes, of which one lost packet stops all over TCP, and one over QUIC.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::PaperBench;
use super::line::{FAR, Faults, FaultyCable, NEAR, load_in};
use crate::hops::download;
use crate::pki::{PROXY, Pki};
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, SheetGoal, median, quantile};

pub(super) const HEAD: PageHead = PageHead {
    title: "Streams that share a link",
    command: "papers blocking",
    notes: "",
    words: "Sixteen clients load 64 KiB each at the same time, through a node beside them and one beside the origin, over one link of 20 ms in \
            each direction that loses this share of its packets. Over HTTP/2 the exchanges share a connection of TCP, in which all wait for a \
            lost packet; over HTTP/3 one of QUIC, in which each waits for its own. Both have CUBIC.",
};

/// Shares of packets that are lost, in percent.
const LONG: &[f64] = &[0.0, 0.5, 1.0, 2.0, 5.0];
const SHORT: &[f64] = &[0.0, 2.0];

/// Of each direction.
const DELAY: Duration = Duration::from_millis(20);

/// Clients at once, and the bytes that each loads.
const CLIENTS: u32 = 16;
const EACH: u64 = 64 * 1024;

/// Loads of all of them in a round.
const LOADS: usize = 10;

/// How long a first load may take until it is done.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where the near node takes requests for each link, and the far one.
const ENTRIES: [(&str, u16); 2] = [("HTTP/2", 8082), ("HTTP/3", 8083)];
const PORT: u16 = 8443;

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let shares = if bench.options.rounds.short {
        SHORT
    } else {
        LONG
    };
    let mut sheet = Sheet::default();
    let mut progress = Progress::new(shares.len() * bench.options.rounds.repeats as usize);
    for share in shares {
        for round in 0..bench.options.rounds.repeats {
            progress.step(&format!("{share} % lost, round {round}"));
            let seed = bench.options.rounds.seed + u64::from(round);
            over(bench, *share, seed, &mut sheet)?;
        }
    }
    progress.end();
    Ok(sheet)
}

fn case(share: f64) -> String {
    format!("{share} % lost")
}

/// One round over a link that loses so much.
fn over(bench: &PaperBench<'_>, share: f64, seed: u64, sheet: &mut Sheet) -> Result<()> {
    let folder = tempfile::tempdir_in(bench.folder())?;
    let faults = Faults {
        delay: DELAY,
        loss: share / 100.0,
    };
    let pki = Pki::create(folder.path())?;
    let line = FaultyCable::lay(folder.path(), faults, seed)?;
    let _far = bench.node(Some(line.far()?), "far", &far(&pki, line.origin.http))?;
    let _near = bench.node(Some(line.near()?), "near", &near(&pki))?;

    let figures = load_in(line.near()?, async || {
        let mut figures = Vec::new();
        for (name, port) in ENTRIES {
            let entry = SocketAddr::from((NEAR, port));
            figures.push((name, loads(entry).await?));
        }
        Ok(figures)
    })?;
    for (system, measured) in figures {
        for (figure, value) in measured {
            sheet.add(&case(share), system, figure, value);
        }
    }
    Ok(())
}

async fn loads(entry: SocketAddr) -> Result<Vec<(Figure, f64)>> {
    let begin = Instant::now();
    // It also warms the connection up.
    while let Err(error) = load(entry).await {
        ensure!(begin.elapsed() < START_LIMIT, error);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let mut parts = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..LOADS {
        let done = load(entry).await?;
        parts.extend(done.parts.iter().map(|part| part.as_secs_f64() * 1e3));
        whole.push(done.time.as_secs_f64() * 1e3);
    }
    Ok(vec![
        (Figure::less("exchange", "ms"), median(&parts)),
        (Figure::less("exchange, 95 %", "ms"), quantile(&parts, 0.95)),
        (Figure::less("all", "ms"), median(&whole)),
    ])
}

async fn load(entry: SocketAddr) -> Result<download::Done> {
    download::run(entry, "web.lab", EACH * u64::from(CLIENTS), CLIENTS).await
}

fn far(pki: &Pki, web: SocketAddr) -> String {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    format!(
        "listeners: {{ overlay: {{ http: \"{FAR}:{PORT}\", public: true, tls: {{ cert_file: {}, key_file: {} }} }} }}\n\
         routes: [ {{ match: {{ target: web.lab }}, terminate: web }} ]\nupstreams: {{ web: {{ endpoints: [\"127.0.0.1:{}\"] }} }}\n",
        cert.display(),
        key.display(),
        web.port()
    )
}

fn near(pki: &Pki) -> String {
    let ca = pki.ca();
    let mut listeners = String::new();
    let mut routes = String::new();
    let mut upstreams = String::new();
    for (version, (_, port)) in (2..).zip(ENTRIES) {
        listeners += &format!("  web{version}: {{ http: \"{NEAR}:{port}\", public: true }}\n");
        routes += &format!("  - {{ match: {{ listener: web{version} }}, to: h{version} }}\n");
        upstreams += &format!(
            "  h{version}: {{ endpoints: [\"{FAR}:{PORT}\"], http: {version}, tls: {{ ca_file: {}, server_name: {PROXY} }} }}\n",
            ca.display()
        );
    }
    format!("listeners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}")
}

/// Where packets are lost, no exchange waits for those of others.
pub(super) fn goals(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for share in LONG.iter().filter(|share| **share >= 1.0) {
        let case = case(*share);
        let of = |system| sheet.of(&case, system, "exchange");
        if let (Some(tcp), Some(quic)) = (of("HTTP/2"), of("HTTP/3")) {
            let value = quic.median / tcp.median;
            goals.push(SheetGoal {
                words: format!("{case}: an exchange over HTTP/3 to one over HTTP/2, below 1"),
                value,
                is_reached: value < 1.0,
            });
        }
    }
    goals
}
