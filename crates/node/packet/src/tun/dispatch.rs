//! Dispatches the packets of a device to its tunnels by their destinations.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use hermes_ip::offload::{OffloadHeader, Offloaded, segment};
use hermes_stack::Checksums;

use super::device_queues::ClaimedQueue;
use super::end::TunEnd;
use super::entering::EnteringPacket;
use super::hub::{Table, TunHub};
use super::hub_device::StackDevice;
use super::read_batch::ReadBatch;
use super::service::TunService;
use super::wireguard_ports::PeerDevice;

/// A packet of a device, and its tunnel.
struct LedPacket {
    header: OffloadHeader,
    /// The length of the longest packet into which it is cut.
    longest: usize,
    /// The tunnel with its destination; `None` for the address of a named host, or without a tunnel.
    end: Option<Arc<TunEnd>>,
}

impl LedPacket {
    /// Finds the tunnel of a packet.
    fn of(hub: &TunHub, table: &Table, checked: &Offloaded<'_>) -> Self {
        let packet = checked.packet();
        let names = hub.names_at(packet.destination());
        Self {
            header: checked.header(),
            longest: checked.longest(),
            end: match names {
                Some(_) => None,
                None => table.end_of(packet),
            },
        }
    }

    fn entering<'a>(&self, bytes: &'a mut [u8]) -> EnteringPacket<'a> {
        EnteringPacket {
            header: self.header,
            bytes,
            longest: self.longest,
        }
    }
}

impl TunHub {
    /// Reads a queue of the device, and gives each packet to the tunnel that has its destination. Ends when the device fails.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn read(&self, queue: &ClaimedQueue) -> io::Result<()> {
        let mut read = ReadBatch::new();
        let mut led = Vec::new();
        let mut segment = Vec::new();
        loop {
            poll_fn(|cx| read.poll_read(&queue.port, cx)).await?;
            self.lead_all(queue.number, &mut read, &mut led);
            if let Some(end) = self.enter_all(&mut read, &led, &mut segment) {
                end.inbox.room().await;
            }
        }
    }

    /// Finds the tunnels of the packets that were read from a queue.
    fn lead_all(&self, queue: usize, read: &mut ReadBatch, led: &mut Vec<Option<LedPacket>>) {
        led.clear();
        let queues = self.device.queues();
        // One lock for the batch, and none while the packets enter their tunnels.
        let table = self.table.read();
        for number in 0..read.len() {
            let (header, packet) = read.packet(number);
            // Malformed packets are passed over.
            let checked = header.check_device(packet).ok();
            if let (Some(queues), Some(checked)) = (queues, &checked) {
                queues.note(queue, checked.packet());
            }
            led.push(checked.map(|checked| LedPacket::of(self, &table, &checked)));
        }
    }

    /// Gives packets to their tunnels, each run for one tunnel under one lock; returns a crowded tunnel that the device should wait for.
    fn enter_all(
        &self,
        read: &mut ReadBatch,
        led: &[Option<LedPacket>],
        room: &mut Vec<u8>,
    ) -> Option<Arc<TunEnd>> {
        let mut crowded = None;
        let mut at = 0;
        while at < led.len() {
            let Some(first) = &led[at] else {
                at += 1;
                continue;
            };
            let (_, packet) = read.packet(at);
            let Some(end) = self.end_for(first, packet, room) else {
                at += 1;
                continue;
            };

            let run = led[at..].iter().map_while(|next| {
                let next = next.as_ref()?;
                let is_same = next
                    .end
                    .as_ref()
                    .is_some_and(|other| Arc::ptr_eq(other, end));
                is_same.then_some(next)
            });
            let mut taken = at;
            let is_crowded = end.take_all(self, |entering| {
                for next in run {
                    let (_, packet) = read.packet(taken);
                    entering.take(next.entering(packet), room);
                    taken += 1;
                }
            });
            at = taken;
            if is_crowded && self.waits() {
                crowded = Some(end.clone());
            }
        }
        crowded
    }

    /// The tunnel of a packet. A packet without one, or for a name, is handled here.
    fn end_for<'a>(
        &self,
        led: &'a LedPacket,
        packet: &[u8],
        room: &mut Vec<u8>,
    ) -> Option<&'a Arc<TunEnd>> {
        if let Some(end) = &led.end {
            return Some(end);
        }
        let checked = led.header.check(packet).ok()?;
        match self.names_at(checked.packet().destination()) {
            Some(names) => segment(&checked, room, |packet| {
                if let Some(error) = names.take(packet, Checksums::Verify) {
                    self.device.answer(&error);
                }
            }),
            None => self.say_unreachable(checked.packet()),
        }
        None
    }

    /// Whether a device waits for a tunnel that is crowded. Many tunnels do not wait for one of
    /// them: a packet without room is lost, as on any link.
    fn waits(&self) -> bool {
        matches!(&self.service, TunService::Client(client) if client.shared.is_none())
    }

    /// Runs the timers of a listener's stack, and spreads the packets that it sends. Never completes.
    pub async fn keep_time(&self) -> Infallible {
        tokio::select! {
            never = self.device.keep_time() => never,
            never = self.spread() => never,
        }
    }

    /// Spreads the packets of a listener's stack over several tunnels by destination. A single tunnel takes all of them itself.
    async fn spread(&self) -> Infallible {
        let own = self.device.own_stack().and_then(StackDevice::own);
        let Some(own) = own.filter(|_| self.is_split()) else {
            return std::future::pending().await;
        };
        let mut room = Vec::new();
        loop {
            for mut packet in own.next_transmits().await {
                self.take_packet(&mut packet, &mut room);
            }
        }
    }
}

/// Packets of the device of another machine, or of a stack, go to the tunnels that have their destinations.
impl PeerDevice for TunHub {
    fn take_packet(&self, packet: &mut [u8], room: &mut Vec<u8>) {
        let Ok(checked) = OffloadHeader::DONE.check_device(packet) else {
            return;
        };
        let led = LedPacket::of(self, &self.table.read(), &checked);
        if let Some(end) = self.end_for(&led, packet, room) {
            // A packet without room is lost: its port has the packets of others, too.
            end.take_all(self, |entering| entering.take(led.entering(packet), room));
        }
    }
}
