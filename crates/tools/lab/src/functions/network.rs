//! The triangle of the paper: a client, a proxy and a server, with a link of its own between each two of them.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::systems::{FunctionsPlace, FunctionsSystem, RunningFunctions};
use crate::emulator::Profile;
use crate::emulator::wire::{End, Wire};
use crate::origin;
use crate::pki::Pki;
use crate::report::{median, quantile};
use crate::socks::client::{self, SocksWay};
use crate::topology::Topology;
use crate::traffic::http::Buffer;

/// A row of the paper's Table I: round trips in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Distances {
    pub name: &'static str,
    /// From the client to the proxy.
    pub to_proxy: u64,
    /// From the proxy to the server.
    pub to_server: u64,
    /// From the client to the server.
    pub direct: u64,
}

impl Distances {
    const fn of(name: &'static str, [to_proxy, to_server, direct]: [u64; 3]) -> Self {
        Self {
            name,
            to_proxy,
            to_server,
            direct,
        }
    }
}

/// Table I. The first three have the proxy on the way, the others beside it.
pub(super) const TABLE_I: [Distances; 6] = [
    Distances::of("DOCKER 1: 5, 5, 10 ms", [5, 5, 10]),
    Distances::of("DOCKER 2: 5, 10, 15 ms", [5, 10, 15]),
    Distances::of("DOCKER 3: 10, 5, 15 ms", [10, 5, 15]),
    Distances::of("DOCKER 4: 1, 1, 1 ms", [1, 1, 1]),
    Distances::of("DOCKER 5: 5, 5, 5 ms", [5, 5, 5]),
    Distances::of("DOCKER 6: 10, 10, 10 ms", [10, 10, 10]),
];

/// The request of a client that closes its connection, as `wrk` and `httping` send it.
pub(super) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: web.lab\r\nConnection: close\r\n\r\n";

/// How long the systems may take until they answer.
const START_LIMIT: Duration = Duration::from_secs(20);

const CLIENT: &str = "10.79.1.1";
const PROXY: &str = "10.79.1.2";
const SERVER: &str = "10.79.2.2";
const SERVER_DIRECT: &str = "10.79.3.2";

/// The times of a system's requests, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTimes {
    pub system: FunctionsSystem,
    pub median: f64,
    /// The quickest, which nothing else on the machine has delayed.
    pub least: f64,
}

/// The systems at these distances, and the times of their requests.
///
/// # Errors
/// When the networks cannot be laid, or a request fails.
pub(super) fn requests(
    distances: &Distances,
    systems: &[FunctionsSystem],
    hermes: &Path,
    count: usize,
) -> Result<Vec<RequestTimes>> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    Pki::create(folder.path())?;
    let mut topology = Topology::new();
    for name in ["client", "proxy", "server"] {
        topology.add(name)?;
    }
    let _links = laid(&topology, distances)?;

    let everywhere: IpAddr = [0, 0, 0, 0].into();
    let server = topology.namespace("server")?;
    let (_origin, addresses) = origin::start_in(Some(server), everywhere, folder.path())?;
    let port = addresses.http.port();
    let place = FunctionsPlace {
        hermes,
        namespace: Some(topology.namespace("proxy")?),
        address: PROXY.parse()?,
        server: SocketAddr::new(SERVER.parse()?, port),
        folder: folder.path(),
    };
    let launched = systems
        .iter()
        .map(|system| RunningFunctions::launch(*system, place));
    let mut running = launched.collect::<Result<Vec<_>>>()?;
    for one in &mut running {
        if one.system == FunctionsSystem::Direct {
            one.target = SocketAddr::new(SERVER_DIRECT.parse()?, port);
        }
    }

    let client = topology.namespace("client")?;
    let timed = std::thread::scope(|scope| {
        // A thread of its own, since the namespace is the thread's.
        let timed = scope.spawn(|| -> Result<Vec<RequestTimes>> {
            client.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(times(&running, count))
        });
        timed.join().map_err(|_| anyhow!("the client has ended"))
    });
    for one in &mut running {
        one.check()?;
    }
    timed?
}

/// The times of each system. They take turns, so that what slows the machine down slows all of them.
async fn times(running: &[RunningFunctions], count: usize) -> Result<Vec<RequestTimes>> {
    for one in running {
        let limit = Instant::now() + START_LIMIT;
        // The first request waits for the start of the proxy, and finds the neighbours of the links.
        while let Err(error) = exchange(one.way, one.target).await {
            if Instant::now() > limit {
                return Err(error).with_context(|| format!("{} does not answer", one.system));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    let mut taken = vec![Vec::with_capacity(count); running.len()];
    for _ in 0..count {
        for (one, times) in running.iter().zip(&mut taken) {
            let begin = Instant::now();
            exchange(one.way, one.target)
                .await
                .with_context(|| one.system.to_string())?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    let times = running.iter().zip(&taken).map(|(one, times)| RequestTimes {
        system: one.system,
        median: median(times),
        least: quantile(times, 0.0),
    });
    Ok(times.collect())
}

/// One request on a connection of its own.
///
/// # Errors
/// When it is not answered.
pub(super) async fn exchange(way: SocksWay, target: SocketAddr) -> Result<()> {
    let mut stream = client::open(way, target, REQUEST).await?;
    // The request went with the connection, where the protocol lets it.
    Buffer::default().exchange(&mut stream, &[]).await
}

fn laid(topology: &Topology, distances: &Distances) -> Result<[Wire; 3]> {
    Ok([
        link(
            topology,
            ["client", "proxy"],
            [CLIENT, PROXY],
            distances.to_proxy,
        )?,
        link(
            topology,
            ["proxy", "server"],
            ["10.79.2.1", SERVER],
            distances.to_server,
        )?,
        link(
            topology,
            ["client", "server"],
            ["10.79.3.1", SERVER_DIRECT],
            distances.direct,
        )?,
    ])
}

/// A link with this round trip, in milliseconds.
fn link(
    topology: &Topology,
    [one, other]: [&str; 2],
    [near, far]: [&str; 2],
    round_trip: u64,
) -> Result<Wire> {
    let profile = Profile {
        delay: Duration::from_millis(round_trip) / 2,
        ..Profile::default()
    };
    let near = format!("{near}/24");
    let far = format!("{far}/24");
    let end = |namespace, device, address| -> Result<End<'_>> {
        Ok(End {
            namespace: topology.namespace(namespace)?,
            device,
            address,
            profile: &profile,
        })
    };
    Wire::lay(end(one, other, &near)?, end(other, one, &far)?, 1)
}
