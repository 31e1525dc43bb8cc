//! Round trips until the first byte comes back, counted over two links: from the client to the proxy, and from there to the server.
//!
//! One of the links takes long and the other nothing; the time divided by the round trip of the long one is their number.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::{self, SocksWay};
use super::systems::{RunningSocks, SocksPlace, SocksPrograms, SocksSystem};
use crate::emulator::Profile;
use crate::emulator::wire::{End, Wire};
use crate::origin::{self, ECHO};
use crate::report::{Figure, Sheet};
use crate::topology::Topology;

pub(super) const TRIPS: &str = "round trips to the first byte";
pub(super) const TO_PROXY: &str = "client to proxy";
pub(super) const TO_SERVER: &str = "proxy to server";
/// The same with TCP Fast Open.
pub(super) const TO_PROXY_FAST: &str = "client to proxy, Fast Open";
pub(super) const TO_SERVER_FAST: &str = "proxy to server, Fast Open";

/// What a packet takes in each direction of the long link.
const DELAY: Duration = Duration::from_millis(50);

const CLIENT: &str = "10.77.1.1";
const PROXY_NEAR: &str = "10.77.1.2";
const PROXY_FAR: &str = "10.77.2.1";
const SERVER: &str = "10.77.2.2";
const PORT: u16 = 1080;

/// Counts them for each system.
///
/// # Errors
/// When the networks cannot be laid.
pub(super) fn count(
    systems: &[SocksSystem],
    programs: &SocksPrograms,
    folder: &Path,
    sheet: &mut Sheet,
) -> Result<()> {
    let near = [DELAY, Duration::ZERO];
    let far = [Duration::ZERO, DELAY];
    for system in systems {
        let is_six = *system == SocksSystem::Hermes6;
        let cases = [
            (TO_PROXY, near, false),
            (TO_SERVER, far, false),
            (TO_PROXY_FAST, near, true),
            (TO_SERVER_FAST, far, true),
        ];
        let cases = cases.iter().filter(|(.., is_fast)| is_six || !is_fast);
        for &(figure, delays, is_fast) in cases {
            let trip = Trip {
                system: *system,
                delays,
                is_fast,
            };
            match trip.take(programs, folder) {
                Ok(took) => {
                    let trips = took.as_secs_f64() / (2.0 * DELAY.as_secs_f64());
                    let figure = Figure::less(figure, "round trips");
                    sheet.add(TRIPS, system.name(), figure, trips.floor());
                }
                Err(error) => {
                    let failure = format!("{system}, {figure}: {error:#}");
                    sheet.failures.push(failure);
                }
            }
        }
    }
    Ok(())
}

/// One exchange over links of these delays.
struct Trip {
    system: SocksSystem,
    delays: [Duration; 2],
    /// Connections open with their first bytes: the kernels and the proxy allow it.
    is_fast: bool,
}

impl Trip {
    /// The time that it takes.
    fn take(&self, programs: &SocksPrograms, folder: &Path) -> Result<Duration> {
        let mut topology = Topology::new();
        for name in ["client", "proxy", "server"] {
            topology.add(name)?;
        }
        let _links = [
            link(
                &topology,
                ["client", "proxy"],
                [CLIENT, PROXY_NEAR],
                self.delays[0],
            )?,
            link(
                &topology,
                ["proxy", "server"],
                [PROXY_FAR, SERVER],
                self.delays[1],
            )?,
        ];
        // Without a proxy, the one in the middle passes packets on.
        topology.route("client", "10.77.2.0/24", PROXY_NEAR)?;
        topology.route("server", "10.77.1.0/24", PROXY_FAR)?;

        if self.is_fast {
            // The server listens without the option, which this value supposes of all listeners.
            for (name, value) in [("client", "1"), ("proxy", "3"), ("server", "1027")] {
                let set = format!("echo {value} > /proc/sys/net/ipv4/tcp_fastopen");
                topology.namespace(name)?.run(&["sh", "-c", &set])?;
            }
        }

        let server = topology.namespace("server")?;
        let own = tempfile::tempdir_in(folder)?;
        crate::pki::Pki::create(own.path())?;
        let (_origin, addresses) = origin::start_in(Some(server), SERVER.parse()?, own.path())?;
        let place = SocksPlace {
            namespace: Some(topology.namespace("proxy")?),
            address: SocketAddr::new(PROXY_NEAR.parse()?, PORT),
            folder: own.path(),
            is_fast: self.is_fast,
        };
        let mut running = RunningSocks::launch(self.system, programs, &place)?;

        let client = topology.namespace("client")?;
        std::thread::scope(|scope| {
            let way = running.way;
            // A thread of its own, since the namespace is the thread's.
            let timed = scope.spawn(move || -> Result<Duration> {
                client.enter()?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(timed(way, addresses.tcp))
            });
            let timed = timed.join();
            running.wait(|| true)?;
            timed.map_err(|_| anyhow::anyhow!("the client has ended"))?
        })
    }
}

/// The time until the first byte of the server, once the proxy listens.
async fn timed(way: SocksWay, target: SocketAddr) -> Result<Duration> {
    let limit = Instant::now() + Duration::from_secs(20);
    // The first one waits for the proxy's start, and finds the neighbours of the links.
    while let Err(error) = client::echo(way, target, &[ECHO, ECHO]).await {
        if Instant::now() > limit {
            return Err(error).context("the proxy does not answer");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begin = Instant::now();
    client::echo(way, target, &[ECHO, ECHO]).await?;
    Ok(begin.elapsed())
}

fn link(
    topology: &Topology,
    [one, other]: [&str; 2],
    [near, far]: [&str; 2],
    delay: Duration,
) -> Result<Wire> {
    let profile = Profile {
        delay,
        ..Profile::default()
    };
    let near = format!("{near}/24");
    let far = format!("{far}/24");
    Wire::lay(
        End {
            namespace: topology.namespace(one)?,
            device: other,
            address: &near,
            profile: &profile,
        },
        End {
            namespace: topology.namespace(other)?,
            device: one,
            address: &far,
            profile: &profile,
        },
        1,
    )
}
