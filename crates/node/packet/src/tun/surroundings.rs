//! Destinations that packets of a tunnel do not reach although the kernel would take them there:
//! the machine itself, and clients of other devices.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hermes_ip::FlowCache;
use hermes_proto::ip::{Fragment, ICMP, ICMPV6, IpFlow, Packet, quoted_flow};
use hermes_rules::packets::OpenedBy;

use super::gate::ArrivedPacket;
use super::node_pools::PoolEntry;

/// Flows of one tunnel with the machine itself that are remembered, and as many that the machine opened: some 150 KB each, taken with the
/// first. A flow that is forgotten is judged again, or remembered with the machine's next packet.
#[doc(alias = "bound")]
const FLOWS: usize = 2_048;

/// Addresses of one tunnel with a remembered class: some 500 bytes, allocated with the first.
#[doc(alias = "bound")]
const ADDRESSES: usize = 16;

/// The view of the machine that has a device.
pub trait OwnMachine: Send {
    /// Grows whenever the addresses of the machine change.
    fn revision(&self) -> u64;

    /// Whether packets to an address are delivered to the machine itself.
    fn has(&self, address: IpAddr) -> bool;

    /// Whether clients may reach an address of the machine all the same.
    fn opens(&self, address: SocketAddr) -> bool;
}

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressClass {
    /// Of this machine.
    Own,
    /// In the pool of another device.
    OfAnotherDevice,
    Elsewhere,
}

/// The surroundings of a tunnel that ends at a device.
pub(super) struct Surroundings {
    machine: Box<dyn OwnMachine>,
    /// The device's own addresses, which answer echoes; `None` if another machine, or this process,
    /// delivers packets.
    device: Option<Vec<IpAddr>>,
    classes: Vec<Option<(IpAddr, AddressClass)>>,
    /// Of the addresses of the machine, and of the pools of the node.
    revisions: [u64; 2],
    verdicts: FlowCache<bool>,
    /// Flows that the machine opened, for which answers pass.
    opened: FlowCache<()>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

impl Surroundings {
    /// The surroundings of a tunnel. `device` has the addresses of a device in this machine's kernel, and is `None` for other devices.
    /// `seed` is a number that peers do not know.
    pub(super) fn new(
        device: Option<Vec<IpAddr>>,
        machine: Box<dyn OwnMachine>,
        seed: u64,
    ) -> Self {
        Self {
            machine,
            device,
            classes: Vec::new(),
            revisions: [0; 2],
            verdicts: FlowCache::new(FLOWS, seed),
            opened: FlowCache::new(FLOWS, seed),
        }
    }

    /// Takes over the flows that the machine opened, so that they go on.
    pub(super) fn go_on(&mut self, before: &mut Self) {
        std::mem::swap(&mut self.opened, &mut before.opened);
    }

    /// Whether a packet may reach its destination, or come from its source.
    pub(super) fn passes(&mut self, pool: Option<&PoolEntry>, arrived: &ArrivedPacket<'_>) -> bool {
        let Some([source, destination]) = addresses(arrived.bytes) else {
            return false;
        };
        let far = match arrived.sender {
            OpenedBy::Client => destination,
            OpenedBy::Target => source,
        };
        match (self.class(pool, far), arrived.sender) {
            (AddressClass::Elsewhere, _) => true,
            (AddressClass::OfAnotherDevice, _) => false,
            (AddressClass::Own, OpenedBy::Target) => {
                self.note(arrived.bytes);
                true
            }
            (AddressClass::Own, OpenedBy::Client) => {
                let packet = Packet::parse(arrived.bytes);
                packet.is_ok_and(|packet| self.reaches_machine(&packet))
            }
        }
    }

    fn class(&mut self, pool: Option<&PoolEntry>, address: IpAddr) -> AddressClass {
        let pools = pool.map_or(0, PoolEntry::revision);
        let revisions = [self.machine.revision(), pools];
        // A change of any address may turn every class and verdict around.
        if self.classes.is_empty() || self.revisions != revisions {
            self.classes.clear();
            self.classes.resize(ADDRESSES, None);
            self.verdicts.forget();
            self.revisions = revisions;
        }

        let at = place(address);
        if let Some((known, class)) = self.classes[at]
            && known == address
        {
            return class;
        }
        let is_own = self
            .device
            .as_ref()
            .is_some_and(|device| device.contains(&address) || self.machine.has(address));
        let class = if is_own {
            AddressClass::Own
        } else if pool.is_some_and(|pool| pool.is_of_another(address)) {
            AddressClass::OfAnotherDevice
        } else {
            AddressClass::Elsewhere
        };
        self.classes[at] = Some((address, class));
        class
    }

    /// Remembers the flow of a packet that the machine sent.
    fn note(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else {
            return;
        };
        let flow = packet.flow();
        if packet.fragment() != Fragment::Later && self.opened.known(&flow).is_none() {
            self.opened.remember(&flow, ());
        }
    }

    /// Whether a packet may reach the machine itself.
    fn reaches_machine(&mut self, packet: &Packet<'_>) -> bool {
        // A later fragment is useless without the first one.
        if packet.fragment() == Fragment::Later {
            return true;
        }
        if packet.is_icmp_error() {
            // Only an error about a packet that the machine sent.
            let quoted = quoted_flow(packet);
            return quoted.is_some_and(|quoted| self.opened.known(&quoted).is_some());
        }

        let flow = packet.flow();
        let is_answer = self.opened.known(&flow.reversed()).is_some();
        if [ICMP, ICMPV6].contains(&packet.protocol()) {
            return match packet.is_echo_request() {
                true => self.is_of_device(flow.destination) || self.opens(&flow),
                false => is_answer && is_echo_reply(packet),
            };
        }
        // A SYN opens a connection even where it looks like an answer: the port may have been used the other way before.
        (is_answer && !packet.opens_tcp()) || self.opens(&flow)
    }

    fn is_of_device(&self, address: IpAddr) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|device| device.contains(&address))
    }

    /// Whether a flow may be opened to the machine.
    fn opens(&mut self, flow: &IpFlow) -> bool {
        let machine = &self.machine;
        self.verdicts.verdict(flow, |flow| {
            machine.opens(SocketAddr::new(flow.destination, flow.destination_port))
        })
    }
}

/// RFC 792; RFC 4443, section 4.2.
fn is_echo_reply(packet: &Packet<'_>) -> bool {
    let kind = packet.payload().first();
    match packet.is_ipv4() {
        true => kind == Some(&0),
        false => kind == Some(&129),
    }
}

/// Where in a table of [`ADDRESSES`] an address is.
fn place(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    };
    // The bits of the golden ratio spread neighbouring addresses.
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % ADDRESSES
}

/// Source and destination of a packet, without a look at the rest of its header.
fn addresses(packet: &[u8]) -> Option<[IpAddr; 2]> {
    let v4 = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?).into());
    let v6 = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?).into());
    match packet.first()? >> 4 {
        4 => Some([v4(12)?, v4(16)?]),
        6 => Some([v6(8)?, v6(24)?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::node_pools::NodePools;
    use super::*;

    const CLIENT: [u8; 4] = [10, 7, 0, 9];
    const DEVICE: [u8; 4] = [10, 7, 0, 1];
    const PUBLIC: [u8; 4] = [198, 51, 100, 7];
    const OTHER_CLIENT: [u8; 4] = [10, 8, 0, 9];
    const HOST: [u8; 4] = [10, 0, 2, 2];

    /// A machine with a public address from revision 1 on, and an open port 53.
    struct Machine(Arc<AtomicU64>);

    impl OwnMachine for Machine {
        fn revision(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn has(&self, address: IpAddr) -> bool {
            self.revision() > 0 && address == IpAddr::from(PUBLIC)
        }

        fn opens(&self, address: SocketAddr) -> bool {
            address.port() == 53
        }
    }

    fn packet([from, to]: [[u8; 4]; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(20 + payload.len()).unwrap();
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from);
        packet.extend(to);
        let sum = hermes_proto::ip::checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(payload);
        packet
    }

    fn udp(ends: [[u8; 4]; 2], ports: [u16; 2]) -> Vec<u8> {
        let [from, to] = ports.map(u16::to_be_bytes);
        packet(ends, 17, &[&from[..], &to, &[0, 8, 0, 0]].concat())
    }

    fn passes(around: &mut Surroundings, pool: &PoolEntry, bytes: &[u8], sender: OpenedBy) -> bool {
        let arrived = ArrivedPacket {
            bytes,
            count: 1,
            sender,
        };
        around.passes(Some(pool), &arrived)
    }

    #[test]
    fn the_machine_is_reached_by_answers_echoes_and_what_is_opened_alone() {
        use OpenedBy::{Client, Target};
        let pools = Arc::new(NodePools::default());
        let pool = pools.enter(vec!["10.7.0.0/24".parse().unwrap()], false);
        let _other = pools.enter(vec!["10.8.0.0/24".parse().unwrap()], false);
        let revision = Arc::new(AtomicU64::new(0));
        let machine = Box::new(Machine(revision.clone()));
        let mut around = Surroundings::new(Some(vec![DEVICE.into()]), machine, 7);
        let mut judge = |bytes: &[u8], sender| passes(&mut around, &pool, bytes, sender);

        assert!(judge(&udp([CLIENT, HOST], [1, 2]), Client));
        assert!(judge(&udp([HOST, CLIENT], [2, 1]), Target));
        assert!(!judge(&udp([CLIENT, OTHER_CLIENT], [1, 2]), Client));
        assert!(!judge(&udp([OTHER_CLIENT, CLIENT], [2, 1]), Target));

        // An address that comes up is known with the next packet.
        assert!(judge(&udp([CLIENT, PUBLIC], [1, 22]), Client));
        revision.store(1, Ordering::Relaxed);
        assert!(!judge(&udp([CLIENT, PUBLIC], [1, 22]), Client));
        assert!(judge(&udp([CLIENT, PUBLIC], [1, 53]), Client));
        assert!(!judge(&udp([CLIENT, DEVICE], [1, 22]), Client));

        let echo = |to, kind| packet([CLIENT, to], 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert!(judge(&echo(DEVICE, 8), Client));
        assert!(!judge(&echo(PUBLIC, 8), Client));
        assert!(!judge(&echo(DEVICE, 0), Client), "it asked for none");

        // Flows that the machine opens are answered, and errors about them arrive.
        let opened = udp([PUBLIC, CLIENT], [40_000, 7]);
        let error = |quoted: &[u8]| {
            packet(
                [CLIENT, PUBLIC],
                1,
                &[&[3, 3, 0, 0, 0, 0, 0, 0], quoted].concat(),
            )
        };
        assert!(!judge(&udp([CLIENT, PUBLIC], [7, 40_000]), Client));
        assert!(!judge(&error(&opened), Client));
        assert!(judge(&opened, Target));
        assert!(judge(&udp([CLIENT, PUBLIC], [7, 40_000]), Client));
        assert!(judge(&error(&opened), Client));
        assert!(!judge(&udp([CLIENT, PUBLIC], [8, 40_000]), Client));
    }
}
