//! A model of several devices of one user that lose their links, come back and move, in any order: each keeps its own address.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hermes_ip::{Accepts, InnerMtu, IpRole, IpSession, PacketScope, SessionEvent, SessionSettings};
use hermes_net::tun::TunSettings;
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::IpPrefix;
use hermes_stack::StackSettings;

use super::assignment::Assignment;
use super::wanted_addresses::Wanted;
use super::wanted_addresses::WantedAddresses;
use super::{
    OtherAssigned, StackDeviceSettings, TunHub, TunProxy, TunService, TunTunnel, TunnelOwner,
};
use crate::Bounds;

/// Different orders of events that are tried.
const SEEDS: u64 = 400;

/// Events of each order.
const STEPS: usize = 60;

/// Devices of the one user.
const DEVICES: usize = 3;

/// How many capsules may be on their way until all is said.
const MOST_CAPSULES: usize = 1000;

/// A capsule on its way.
type Capsule = (CapsuleType, Bytes);

/// The shared state of a device and one end while there is a link.
struct Link {
    tunnel: Arc<TunTunnel>,
    to_client: VecDeque<Capsule>,
    to_proxy: VecDeque<Capsule>,
}

/// A tunnel at an end with a lost link, which waits for its client.
struct LostTunnel {
    tunnel: Arc<TunTunnel>,
    replaced: Pin<Box<dyn Future<Output = ()>>>,
}

/// A device of the user, as the model has it.
struct UserDevice {
    wanted: WantedAddresses,
    session: IpSession,
    link: Option<Link>,
    waiting: Option<LostTunnel>,
    first: Vec<IpPrefix>,
}

/// The devices, and the ends with the same pool that they come to.
struct World {
    random: fastrand::Rng,
    ends: [Arc<TunHub>; 2],
    devices: Vec<UserDevice>,
    /// Tunnels that their clients have left behind.
    left: Vec<LostTunnel>,
}

fn client_session() -> IpSession {
    IpSession::new(SessionSettings {
        role: IpRole::Client,
        scope: PacketScope::any(),
        routers: Default::default(),
        mtu: InnerMtu::STREAM,
        accepts_addresses: Accepts::All,
        accepts_routes: Accepts::All,
    })
}

fn end() -> Arc<TunHub> {
    let pool = ["10.7.0.0/24".parse().unwrap(), "fd07::/64".parse().unwrap()];
    let settings = TunSettings {
        name: "model".to_owned(),
        queues: 1,
        mtu: 1500,
        addresses: Vec::new(),
        routes: Vec::new(),
        past: None,
        masquerade: false,
    };
    let proxy = TunProxy::new(&pool, &[]).unwrap();
    let stack = StackDeviceSettings {
        stack: StackSettings::default(),
        datagrams: Bounds::NOTHING,
    };
    TunHub::in_user_space(settings, TunService::Proxy(Box::new(proxy)), stack)
}

impl LostTunnel {
    /// A link is lost.
    fn begin(tunnel: Arc<TunTunnel>) -> Self {
        let waits = tunnel.clone();
        let mut waiting = Self {
            tunnel,
            replaced: Box::pin(async move { waits.replaced().await }),
        };
        waiting.is_replaced();
        waiting
    }

    fn is_replaced(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.replaced.as_mut().poll(&mut context).is_ready()
    }
}

impl Link {
    fn over(tunnel: Arc<TunTunnel>) -> Self {
        Self {
            tunnel,
            to_client: VecDeque::new(),
            to_proxy: VecDeque::new(),
        }
    }

    /// Takes the capsules of the end.
    fn listen(&mut self) {
        let mut session = self.tunnel.end.session.lock();
        while let Some(capsule) = session.poll_capsule() {
            self.to_client.extend(parts(&capsule));
        }
    }
}

fn parts(capsule: &hermes_proto::connect_ip::IpCapsule) -> Option<Capsule> {
    let mut bytes = BytesMut::new();
    capsule.encode(&mut bytes);
    let mut decoder = CapsuleDecoder::new(DatagramFormat::IP.max_capsule());
    decoder.push(bytes.freeze());
    let capsule = decoder.next().unwrap()?;
    Some((capsule.kind, capsule.value))
}

impl UserDevice {
    fn new() -> Self {
        Self {
            wanted: WantedAddresses::new(&[], OtherAssigned::Adopt),
            session: client_session(),
            link: None,
            waiting: None,
            first: Vec::new(),
        }
    }

    /// Comes anew, as its tunnel is gone or leads elsewhere.
    fn open(&mut self, end: &Arc<TunHub>) {
        let owner = TunnelOwner {
            identity: "alice".to_owned(),
            part: None,
        };
        let tunnel = TunTunnel::open(end, &owner, PacketScope::any()).unwrap();
        self.session = client_session();
        self.wanted.begin();
        self.link = Some(Link::over(Arc::new(tunnel)));
    }

    /// Finds its tunnel again, if that is still its own.
    fn resume(&mut self) -> bool {
        let Some(waiting) = self.waiting.take() else {
            return false;
        };
        if waiting.tunnel.is_over() {
            return false;
        }
        waiting.tunnel.resumed();
        self.link = Some(Link::over(waiting.tunnel));
        true
    }

    /// One capsule arrives, at one side; false: nothing is on its way.
    fn deliver(&mut self, to_client: bool) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        link.listen();
        while let Some(capsule) = self.session.poll_capsule() {
            link.to_proxy.extend(parts(&capsule));
        }

        let is_client = to_client && !link.to_client.is_empty() || link.to_proxy.is_empty();
        if !is_client {
            if let Some((kind, value)) = link.to_proxy.pop_front() {
                link.tunnel.receive_capsule(kind, &value).unwrap();
            }
            return true;
        }
        let Some((kind, value)) = link.to_client.pop_front() else {
            return false;
        };
        self.take(kind, &value);
        true
    }

    /// As [`TunTunnel`] does it at a client.
    fn take(&mut self, kind: CapsuleType, value: &[u8]) {
        let waiting = self.session.unanswered().len();
        let event = self.session.handle_capsule(kind, value, Instant::now());
        let is_answer = self.session.unanswered().len() < waiting;
        let Some(SessionEvent::Assigned { taken, .. }) = event.unwrap() else {
            return;
        };
        let wanted = self.wanted.handle_assigned(Assignment {
            usable: &taken,
            all: &taken,
            is_answer,
            has_refused: false,
        });
        if let Wanted::Request(addresses) = wanted {
            self.session.request(&addresses);
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: fastrand::Rng::with_seed(seed),
            ends: [end(), end()],
            devices: (0..DEVICES).map(|_| UserDevice::new()).collect(),
            left: Vec::new(),
        };
        for device in &mut world.devices {
            device.open(&world.ends[0]);
        }
        world.say_everything();
        for device in &mut world.devices {
            device.first = device.wanted.held().to_vec();
        }
        world
    }

    fn step(&mut self) {
        let number = self.random.usize(..DEVICES);
        let device = &mut self.devices[number];
        match self.random.u8(..10) {
            0 | 1 => {
                if let Some(link) = device.link.take() {
                    device.waiting = Some(LostTunnel::begin(link.tunnel));
                }
            }
            2 if device.link.is_none() => {
                device.resume();
            }
            // Its link is not there, or its way leads to another end from now on.
            3 | 4 => {
                self.left.extend(device.waiting.take());
                device.link = None;
                device.open(&self.ends[self.random.usize(..2)]);
            }
            5 => {
                let count = self.left.len();
                if count > 0 {
                    self.left.swap_remove(self.random.usize(..count));
                }
            }
            _ => {
                device.deliver(self.random.bool());
            }
        }
        self.left.retain_mut(|waiting| !waiting.is_replaced());
    }

    /// All links come back, and everything arrives.
    fn settle(&mut self) {
        for device in &mut self.devices {
            if device.link.is_none() && !device.resume() {
                device.open(&self.ends[0]);
            }
        }
        self.say_everything();
    }

    fn say_everything(&mut self) {
        for _ in 0..MOST_CAPSULES {
            let mut delivered = false;
            for device in &mut self.devices {
                delivered |= device.deliver(self.random.bool());
            }
            if !delivered {
                return;
            }
        }
        panic!("they never agree");
    }
}

#[test]
fn each_of_several_devices_of_one_user_keeps_its_address() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();

        for (number, device) in world.devices.iter().enumerate() {
            let held = device.wanted.held();
            assert_eq!(held, device.first, "seed {seed}: device {number}");
            let link = device.link.as_ref().unwrap();
            let mut assigned = link.tunnel.addresses();
            assigned.sort_unstable();
            let mut held = held.to_vec();
            held.sort_unstable();
            assert_eq!(assigned, held, "seed {seed}: device {number} at its end");
            for address in &held {
                let led = link.tunnel.hub.end_with(*address);
                let is_own = led.is_some_and(|end| Arc::ptr_eq(&end, &link.tunnel.end));
                assert!(is_own, "seed {seed}: {address} is led elsewhere");
            }
        }
    }
}
