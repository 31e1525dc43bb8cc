//! First bytes, round trips and jitter over transactions at once and hops, seen by the client, and what the QUIC connection of its proxy says of
//! itself at the same time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::PaperBench;
use crate::experiment::Measured;
use crate::hops::network::{HOPS, Links, Network};
use crate::hops::plan::{HopExperiment, HopSystem, Point, Way};
use crate::hops::qlog;
use crate::hops::systems::{Around, HopEntry, Running};
use crate::origin;
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, median, quantile};
use crate::traffic::Client;
use crate::traffic::http::Buffer;

pub(super) const HEAD: PageHead = PageHead {
    title: "Transactions and hops",
    command: "papers transactions",
    notes: "",
    words: "So many clients, each with a connection of its own to the proxy beside it, make requests one after the other, over chains of nodes that \
            speak HTTP/3 to the next. The first byte is that of a new client, connection included; round trip and jitter (the mean \
            difference of a time to the one before) are of the requests after that. What begins with QUIC is from the qlog of the proxy beside \
            the client.",
};

/// Clients at once.
const LONG: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];
const SHORT: &[u32] = &[1, 16];

/// Requests of a client after the first.
const REQUESTS: usize = 30;

/// How long all requests of a client may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a chain may take until a request is answered.
const START_LIMIT: Duration = Duration::from_secs(20);

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let network = Network::lay(Links::Fast)?;
    let pki = Pki::create(bench.folder())?;
    let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let namespace = Some(network.origin()?);
    let (_origin, origin) = origin::start_in(namespace, anywhere, bench.folder())?;
    let around = Around {
        network: &network,
        origin,
        pki: &pki,
        folder: bench.folder(),
        programs: &bench.programs,
    };
    let mut direct = Running::launch(HopSystem::Direct, &around)?;
    let mut hermes = Running::launch(HopSystem::Hermes, &around)?;
    let client = Client::new(pki.client()?)?;

    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            network.client()?.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                direct.ready(&client).await?;
                hermes.ready(&client).await?;
                rounds(bench, &around, [&direct, &hermes]).await
            })
        });
        load.join()
            .map_err(|_| anyhow!("the thread of the load panicked"))?
    })
}

async fn rounds(
    bench: &PaperBench<'_>,
    around: &Around<'_>,
    [direct, hermes]: [&Running; 2],
) -> Result<Sheet> {
    let counts = if bench.options.rounds.short {
        SHORT
    } else {
        LONG
    };
    let mut sheet = Sheet::default();
    let steps = bench.options.rounds.repeats as usize * counts.len() * (usize::from(HOPS) + 1);
    let mut progress = Progress::new(steps);
    for _ in 0..bench.options.rounds.repeats {
        for count in counts {
            for hops in 0..=HOPS {
                let case = format!("{count} at once");
                let system = format!("{hops} hops");
                progress.step(&format!("{case}, {system}"));
                let measured = match hops {
                    0 => without_proxy(direct, *count).await,
                    hops => through(hermes, around, hops, *count).await,
                };
                match measured {
                    Ok(measured) => {
                        for (figure, value) in measured {
                            sheet.add(&case, &system, figure, value);
                        }
                    }
                    Err(error) => sheet.failures.push(format!("{case}, {system}: {error:#}")),
                }
            }
        }
    }

    progress.end();
    Ok(sheet)
}

fn point(hops: u8) -> Point {
    Point {
        experiment: HopExperiment::Latency,
        links: Links::Fast,
        way: match hops {
            0 => Way::Direct,
            _ => Way::Forwarded,
        },
        hops,
        transactions: 1,
    }
}

async fn without_proxy(direct: &Running, count: u32) -> Result<Measured> {
    let entry = direct.entry(point(0)).context("there is no direct way")?;
    figures(entry, count).await
}

/// Through a proxy beside the client that is there for this alone, and writes down its connections.
async fn through(hermes: &Running, around: &Around<'_>, hops: u8, count: u32) -> Result<Measured> {
    let folder = tempfile::tempdir_in(around.folder)?;
    let (mut process, entry) = hermes.traced(point(hops), around, folder.path())?;
    let begin = Instant::now();
    while let Err(error) = client(entry.clone()).await {
        process.check()?;
        ensure!(begin.elapsed() < START_LIMIT, error.context(process.log()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let mut measured = figures(&entry, count).await?;
    // Its end writes the files to their ends.
    drop(process);
    measured.extend(qlog::read(&folder.path().join("qlog"))?);
    Ok(measured)
}

/// The figures of all clients, in microseconds.
async fn figures(entry: &HopEntry, count: u32) -> Result<Measured> {
    let mut clients = JoinSet::new();
    for _ in 0..count {
        clients.spawn(client(entry.clone()));
    }
    let mut first = Vec::new();
    let mut trips = Vec::new();
    let mut jitter = Vec::new();
    while let Some(done) = clients.join_next().await {
        let done = done.context("a client")??;
        first.push(done.first);
        jitter.push(qlog::jitter(&done.trips));
        trips.extend(done.trips);
    }

    Ok(vec![
        (Figure::less("first byte", "us"), median(&first)),
        (Figure::less("round trip", "us"), median(&trips)),
        (
            Figure::less("round trip, 99 %", "us"),
            quantile(&trips, 0.99),
        ),
        (Figure::less("jitter", "us"), median(&jitter)),
    ])
}

/// The times of one client, in microseconds.
struct ClientTimes {
    first: f64,
    trips: Vec<f64>,
}

async fn client(entry: HopEntry) -> Result<ClientTimes> {
    timeout(LIMIT, requests(&entry))
        .await
        .context("not done in time")?
}

async fn requests(entry: &HopEntry) -> Result<ClientTimes> {
    let host = &entry.host;
    let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let begin = Instant::now();
    let mut stream = TcpStream::connect(entry.http).await?;
    stream.set_nodelay(true)?;

    // An answer is one packet: its first byte is there with its last.
    let mut buffer = Buffer::default();
    buffer.exchange(&mut stream, request.as_bytes()).await?;
    let first = micros(begin);
    let mut trips = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let begin = Instant::now();
        buffer.exchange(&mut stream, request.as_bytes()).await?;
        trips.push(micros(begin));
    }
    Ok(ClientTimes { first, trips })
}

fn micros(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}
