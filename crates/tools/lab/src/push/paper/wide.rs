//! The wide area of the paper (Fig. 6), emulated: four sites, with the distances that its Table 1 tells.
//!
//! A and B are on the west coast of the United States, C on the east coast, D in Europe. Of three sites, the one in the middle has the relay, or a forwarder
//! of TCP.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::call::Call;
use super::counts::{BULK, PaperCounts};
use super::forwarder::start_forwarder;
use super::local::{SMALL, bytes};
use crate::emulator::wire::{End, Wire};
use crate::emulator::{Profile, Rate};
use crate::process::Process;
use crate::push::flow::{MessageFlow, WINDOW};
use crate::push::lane::{ForwardedPorts, LaneKind, pings};
use crate::push::side::Side;
use crate::push::systems::{BrokerAddress, PushSystem, RunningBroker, listens};
use crate::report::{Figure, Sheet, median};
use crate::topology::Topology;

/// The sites, as their namespaces are called.
const SITES: [&str; 4] = ["a", "b", "c", "d"];

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

/// Microseconds there and back between two sites. The table has the direct distances of A-C, A-D and B-D, and the sums A-B-C, A-C-D and B-C-D.
const DISTANCES: [(usize, usize, u64); 6] = [
    (A, B, 7_300),
    (A, C, 84_300),
    (A, D, 152_000),
    (B, C, 80_300),
    (B, D, 156_000),
    (C, D, 92_200),
];

/// All links.
const RATE: Rate = Rate {
    bits_per_second: 20_000_000,
    queue_bytes: 500_000,
};

/// How much a distance varies, up and down: half of the variation that the gap between two messages may have.
const JITTER: Duration = Duration::from_millis(2);

/// The ways of the table: from, by, to.
const WAYS: [[usize; 3]; 3] = [[A, B, C], [A, C, D], [B, C, D]];

/// Receivers at one site.
const RECEIVERS: usize = 20;

/// Receivers of which each has a connection over the link.
pub(crate) const EACH: &str = "50 KB to 20 receivers of one site (Fig. 8a)";
/// The same behind a node that subscribes once for all.
pub(crate) const JOINED: &str = "50 KB to 20 behind an aggregating node (Fig. 8a)";
/// What the link carries for them.
pub(crate) const LINK: &str = "link, of one copy";

/// The case of a ping by this way.
pub(crate) fn ping_case(way: usize) -> String {
    let [from, by, to] = WAYS[way].map(|site| SITES[site].to_uppercase());
    format!("ping of 100 B, {from}-{by}-{to} (Table 1)")
}

/// The sites, their links, and the programs in the middle.
pub(super) struct WideArea {
    hermes: PathBuf,
    /// First, so that they end before their networks do.
    processes: Vec<Process>,
    relays: Vec<RunningBroker>,
    _links: Vec<Wire>,
    topology: Topology,
    folder: TempDir,
}

impl WideArea {
    /// Lays the links, and starts relays at B and C.
    ///
    /// # Errors
    /// The system does not allow it, or a program does not start.
    pub(super) fn lay(hermes: &Path, seed: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        let mut topology = Topology::new();
        for (site, name) in SITES.iter().enumerate() {
            let namespace = topology.add(name)?;
            namespace.attach("lo", &format!("{}/32", address(site)))?;
        }
        let links: Result<Vec<_>> = (0..DISTANCES.len())
            .map(|link| lay_link(&topology, link, seed))
            .collect();
        let mut wide = Self {
            hermes: hermes.to_owned(),
            processes: Vec::new(),
            relays: Vec::new(),
            _links: links?,
            topology,
            folder,
        };
        for site in [B, C] {
            let at = BrokerAddress {
                system: PushSystem::Hermes,
                address: SocketAddr::new(address(site), RELAY_PORT),
            };
            let home = wide.folder.path().join(SITES[site]);
            fs::create_dir(&home)?;
            let relay = RunningBroker::start_at(at, wide.side(site)?, hermes, &home)?;
            wide.relays.push(relay);
        }
        Ok(wide)
    }

    /// Measures all.
    ///
    /// # Errors
    /// A connection fails, or a program does not start.
    pub(super) fn measure(&mut self, counts: PaperCounts, sheet: &mut Sheet) -> Result<()> {
        for way in counts.ways.iter().copied() {
            let sites = WAYS[way];
            let forwarded = forwarded_ports(way, sites);
            let ends = [address(sites[2]), address(sites[0])];
            let middle = self.side(sites[1])?;
            let folder = self.folder.path();
            let forwarder = start_forwarder(middle, forwarded, ends, folder)?;
            self.processes.push(forwarder);
            let sides = [self.side(sites[0])?, self.side(sites[2])?];
            for lane in self.lanes(sites[1], forwarded) {
                let times = pings(lane, sides, SMALL, counts.far_pings)?;
                let p50 = median(&times) * 1e3;
                let figure = Figure::less("RTT, p50", "ms");
                sheet.add(&ping_case(way), &lane.to_string(), figure, p50);
                if sites == [A, C, D] {
                    self.throughput(lane, sides, counts, sheet)?;
                }
                if sites == [B, C, D] && !matches!(lane, LaneKind::Indirect(_)) {
                    let call = Call {
                        lane,
                        sides,
                        messages: counts.call,
                        has_bulk: false,
                    };
                    call.measure("160 B, 50 a second, B-C-D (Fig. 7b)", sheet)?;
                }
            }
        }
        self.receivers(counts, sheet)
    }

    fn throughput(
        &self,
        lane: LaneKind,
        sides: [Side<'_>; 2],
        counts: PaperCounts,
        sheet: &mut Sheet,
    ) -> Result<()> {
        for size in counts.far_sizes {
            let rate = lane.flow(sides, *size, counts.far_flow)?;
            let case = format!("{} without pause, A-C-D (Fig. 7d)", bytes(*size));
            let megabits = rate.gigabits(*size) * 1e3;
            let figure = Figure::more("throughput", "Mbit/s");
            sheet.add(&case, &lane.to_string(), figure, megabits);
        }
        Ok(())
    }

    /// Receivers at A of a sender beside the relay at C.
    fn receivers(&mut self, counts: PaperCounts, sheet: &mut Sheet) -> Result<()> {
        let relay = self.relays[1].at;
        let joining = self.joining_node()?;
        // Where their link is the limit, the queue before it has to be taken after the end.
        let each = (EACH, "each", relay, WINDOW / 4);
        let joined = (JOINED, "joined", joining, WINDOW);
        for (case, channel, at, window) in [each, joined] {
            let before = self.sent_bytes()?;
            let flow = MessageFlow {
                at: [relay, at],
                sides: [self.side(C)?, self.side(A)?],
                channel,
                subscribers: RECEIVERS,
                size: BULK,
                window,
                limit: counts.far_flow,
            };
            let rate = flow.run()?;
            let each = rate.gigabits(BULK) * 1e3 / RECEIVERS as f64;
            let sent = (self.sent_bytes()? - before) as f64;
            let messages = rate.deliveries / RECEIVERS as u64 * BULK as u64;
            let figure = Figure::more("each, on average", "Mbit/s");
            sheet.add(case, "hermes", figure, each);
            let share = sent / messages as f64;
            sheet.add(case, "hermes", Figure::less(LINK, "times"), share);
        }
        Ok(())
    }

    fn lanes(&self, by: usize, forwarded: ForwardedPorts) -> [LaneKind; 3] {
        let relay = &self.relays[by - B];
        [
            LaneKind::Direct,
            LaneKind::Indirect(forwarded),
            LaneKind::Broker(relay.at),
        ]
    }

    fn side(&self, site: usize) -> Result<Side<'_>> {
        Ok(Side {
            namespace: Some(self.topology.namespace(SITES[site])?),
            address: address(site),
        })
    }

    /// A node at A that subscribes once for all who ask it.
    fn joining_node(&mut self) -> Result<BrokerAddress> {
        let at = SocketAddr::new(address(A), JOIN_PORT);
        let relay = self.relays[1].at.address;
        let home = self.folder.path().join("join");
        fs::create_dir(&home)?;
        let file = home.join("join.yaml");
        let text = format!(
            "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
             listeners: {{ web: {{ http: \"{at}\", gateway: true, public: true, limits: {{ per_source: 1000 }} }} }}\n\
             functions: {{ join: {{ aggregate: {{ message: 2MiB, queue: 4MiB }} }} }}\n\
             routes: [ {{ through: [join], to: relay }} ]\nupstreams: {{ relay: {{ endpoints: [\"{relay}\"] }} }}\n"
        );
        fs::write(&file, text)?;
        let words = ["run".as_ref(), file.as_os_str()];
        let side = self.side(A)?;
        let mut node = Process::start_in(side.namespace, "join", &home, &self.hermes, &words)?;
        listens(&mut node, side, at)?;
        self.processes.push(node);
        Ok(BrokerAddress {
            system: PushSystem::Hermes,
            address: at,
        })
    }

    /// Bytes that C has sent to A.
    fn sent_bytes(&self) -> Result<u64> {
        let counted = self.topology.namespace(SITES[C])?;
        let counted = counted.run(&["cat", "/proc/net/dev"])?;
        let mut lines = counted.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("a:"));
        let sent = line.and_then(|line| line.split_whitespace().nth(8));
        Ok(sent.context("the link counts nothing")?.parse()?)
    }
}

const RELAY_PORT: u16 = 7000;
const JOIN_PORT: u16 = 7001;

/// A site, wherever it is asked from.
fn address(site: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 66, 0, site as u8 + 1))
}

fn forwarded_ports(way: usize, sites: [usize; 3]) -> ForwardedPorts {
    let first = 7100 + 10 * way as u16;
    let entry = |port| SocketAddr::new(address(sites[1]), port);
    ForwardedPorts {
        entries: [entry(first), entry(first + 1)],
        ports: [first + 2, first + 3],
    }
}

/// A link between two sites, and the routes over it.
fn lay_link(topology: &Topology, link: usize, seed: u64) -> Result<Wire> {
    let (one, other, distance) = DISTANCES[link];
    let profile = Profile {
        delay: Duration::from_micros(distance / 2),
        jitter: JITTER,
        rate: Some(RATE),
        ..Profile::default()
    };
    let host = |number: u8| format!("10.67.{link}.{number}");
    let addresses = [host(1), host(2)].map(|host| format!("{host}/24"));
    let end = |at: usize, device: usize, address| -> Result<End<'_>> {
        Ok(End {
            namespace: topology.namespace(SITES[at])?,
            device: SITES[device],
            address,
            profile: &profile,
        })
    };
    let [near, far] = &addresses;
    let wire = Wire::lay(
        end(one, other, near)?,
        end(other, one, far)?,
        seed + link as u64,
    )?;
    topology.route(SITES[one], &format!("{}/32", address(other)), &host(2))?;
    topology.route(SITES[other], &format!("{}/32", address(one)), &host(1))?;
    Ok(wire)
}
