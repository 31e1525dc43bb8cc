//! `capture` listeners: a program or a pod has a network that leads nowhere but here, and each of its connections and each pair of its UDP
//! ports becomes an exchange for its original destination.
//!
//! Nothing is to be cleaned up: the device in such a network goes with its descriptor, and without it the network leads nowhere. So it is
//! closed, not open, where the node is not there.

mod greeting;
pub(super) mod network;
pub(super) mod programs;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_admit::captures::CaptureEntry;
use hermes_admit::entrance::Entrance;
use hermes_config::model::Capture;
use hermes_ip::NameLeases;
use hermes_net::capture::CapturedSpace;
use hermes_net::memory::{Memory, Owner};
use hermes_net::tun::TunQueue;
use hermes_net::{Asker, PeerAddress, StreamInfo, Watch};
use hermes_packet::tun::{CAPTURED_LIMITS, CapturedNetwork, FlowStack, NamedHosts};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;
use hermes_stack::StackSettings;

use crate::device_spec::{DATAGRAMS, MTU, echo_of};
use crate::named::{FlowSource, NameDevice, NameServer};

/// The sender of a captured network's traffic.
struct Captured {
    entrance: Entrance,
    source: FlowSource,
    /// The account and the turns of its flows.
    owner: Owner,
    asker: Asker,
    /// The addresses that its packets may have.
    addresses: Vec<IpAddr>,
}

/// The network that a listener wants its programs to have.
fn space(capture: &Capture) -> CapturedSpace {
    let pool = pool(capture);
    let device = pool.iter().copied().map(NameLeases::device_address);
    let servers = pool.iter().copied().map(NameLeases::server_address);
    CapturedSpace {
        addresses: device.collect(),
        resolvers: servers.collect(),
        mtu: mtu(capture),
    }
}

fn pool(capture: &Capture) -> Vec<IpPrefix> {
    let pool = &capture.dns().pool;
    pool.iter().filter_map(prefix_of).collect()
}

fn mtu(capture: &Capture) -> u32 {
    capture.mtu.unwrap_or(MTU).into()
}

impl Captured {
    /// Of programs at this entrance, or of those behind one connection of it.
    fn new(entrance: Entrance, source: FlowSource, capture: &Capture) -> Self {
        let from = match &source {
            FlowSource::Of(info) => info.peer,
            FlowSource::Itself => PeerAddress::Unix { uid: None },
        };
        let user = entrance.proven_user().or(entrance.rules.user.as_deref());
        Self {
            owner: Owner::of(user, &from),
            asker: Asker::user_or_source(user, &from),
            addresses: match &source {
                FlowSource::Of(_) => space(capture).addresses,
                FlowSource::Itself => Vec::new(),
            },
            entrance,
            source,
        }
    }

    /// Carries the traffic of a device until that is gone, `over` is, or the node is told to end at once. Returns the reason.
    ///
    /// # Errors
    /// The run time takes no more descriptors.
    async fn carry(
        self,
        queue: TunQueue,
        entry: &CaptureEntry,
        watch: &Watch,
        over: impl Future<Output = ()>,
    ) -> io::Result<String> {
        let hosts = self.hosts()?;
        let (network, port) = CapturedNetwork::new(queue, hosts.clone())?;
        entry.opened(&network);
        let device = NameDevice::Captured(network.clone());
        let server = NameServer::new(self.entrance, device, hosts, self.source);
        let reason = tokio::select! {
            failed = network.read(&port) => format!("its device is gone: {failed}"),
            never = network.write() => match never {},
            () = server.serve(watch) => "the node ends".to_owned(),
            () = over => "its programs have ended".to_owned(),
        };
        network.close();
        Ok(reason)
    }

    fn hosts(&self) -> io::Result<Arc<NamedHosts>> {
        let rules = &self.entrance.rules;
        let gone = || io::Error::other("the listener captures nothing any more");
        let capture = rules.config.capture().ok_or_else(gone)?;
        let settings = StackSettings {
            mtu: mtu(capture) as usize,
            echo: echo_of(capture.dns()),
            limits: CAPTURED_LIMITS,
            ..StackSettings::default()
        };

        let stack = FlowStack::new(settings, DATAGRAMS);
        stack.set_account(Memory::node().owner(self.owner.clone()));
        let turns = &self.entrance.worker.shared.shares.users.packets;
        stack.set_turns(turns.clone(), self.asker);
        let hosts = NamedHosts::captured(&pool(capture), stack, self.addresses.clone());
        hosts.map_err(io::Error::other)
    }
}

/// The description of a program as the sender of exchanges.
fn of_program(info: &Arc<StreamInfo>) -> FlowSource {
    FlowSource::Of(info.clone())
}
