//! A link between two namespaces: a TUN device in each, and a thread between them that obeys the two directions.
//!
//! The thread waits in the kernel, whose timers are finer than those of a run time: on a machine with a free processor times are right
//! within a tenth of a millisecond. It needs root.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::{Direction, Profile};
use crate::topology::Namespace;

/// Bytes of the largest packet on the link.
const MTU: u16 = 1500;
/// Packets that the kernel keeps for us: our own queue decides what is lost.
const KERNEL_QUEUE: u32 = 10_000;
/// Packets that are read from one device before the other one has its turn.
const TURN: usize = 64;

/// A running link. Dropping it takes the devices away.
#[derive(Debug)]
pub struct Wire {
    /// The thread ends when this is dropped.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// Name of the device there.
    pub device: &'a str,
    /// Its address and prefix length.
    pub address: &'a str,
    /// What happens to packets that enter the link here.
    pub profile: &'a Profile,
}

impl Wire {
    /// Lays a link. Both directions are decided by `seed`, differently.
    ///
    /// # Errors
    /// When the system has no TUN devices or does not allow them.
    pub fn lay(one: End<'_>, other: End<'_>, seed: u64) -> Result<Self> {
        Self::lay_since(one, other, seed, Instant::now())
    }

    /// The same, for a link whose schedule began at `start`, as those of others did.
    ///
    /// # Errors
    /// As [`Self::lay`].
    pub fn lay_since(one: End<'_>, other: End<'_>, seed: u64, start: Instant) -> Result<Self> {
        let devices = [one.open()?, other.open()?];
        let [forth, back] = [one.profile.clone(), other.profile.clone()];
        let (end, ended) = UnixStream::pair()?;

        let thread = spawn(move || {
            let [one, other] = &devices;
            let forth = Direction::new(forth, seed, start);
            let back = Direction::new(back, !seed, start);
            let mut lanes = [
                WireDirection::of(one, other, forth),
                WireDirection::of(other, one, back),
            ];
            carry(&mut lanes, &ended)
        });

        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("link: {error:#}");
        }
    }
}

impl End<'_> {
    /// Opens the device. A thread goes into the namespace for it and ends there.
    fn open(&self) -> Result<SyncDevice> {
        let device = std::thread::scope(|scope| {
            let opened = scope.spawn(|| {
                self.namespace.enter()?;
                let builder = DeviceBuilder::new()
                    .name(self.device)
                    .mtu(MTU)
                    .tx_queue_len(KERNEL_QUEUE);

                builder
                    .build_sync()
                    .with_context(|| format!("TUN device {}", self.device))
            });
            opened
                .join()
                .map_err(|_| anyhow!("the thread that opens {} panicked", self.device))?
        })?;

        device.set_nonblocking(true)?;
        self.namespace.attach(self.device, self.address)?;
        Ok(device)
    }
}

/// One direction of a link.
struct WireDirection<'a> {
    from: &'a SyncDevice,
    to: &'a SyncDevice,
    direction: Direction<Vec<u8>>,
}

impl<'a> WireDirection<'a> {
    fn of(from: &'a SyncDevice, to: &'a SyncDevice, direction: Direction<Vec<u8>>) -> Self {
        Self {
            from,
            to,
            direction,
        }
    }

    /// Passes on all packets whose time has come.
    fn depart(&mut self) {
        while let Some(packet) = self.direction.poll_departure(Instant::now()) {
            // The other device may be down for a moment; a packet is lost then, as on any link.
            self.to.send(&packet).ok();
        }
    }

    /// Takes the packets that are there.
    fn read(&mut self, room: &mut [u8]) -> Result<()> {
        for _ in 0..TURN {
            match self.from.recv(room) {
                Ok(length) => {
                    let packet = room[..length].to_vec();
                    self.direction.handle_packet(packet, length, Instant::now());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Carries packets in both directions until the other end of `ended` is gone, or a device is.
fn carry(lanes: &mut [WireDirection<'_>; 2], ended: &UnixStream) -> Result<()> {
    let mut room = vec![0; usize::from(MTU)];
    loop {
        lanes.iter_mut().for_each(WireDirection::depart);

        let next = lanes
            .iter()
            .filter_map(|lane| lane.direction.next_departure());
        let wait = next
            .min()
            .map(|next| next.saturating_duration_since(Instant::now()));
        let wait = wait.map(Timespec::try_from).transpose()?;
        let [forth, back] = &*lanes;
        let mut readable = [
            PollFd::new(forth.from, PollFlags::IN),
            PollFd::new(back.from, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        match poll(&mut readable, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }

        let [forth, back, ended] = readable.map(|one| !one.revents().is_empty());
        if ended {
            return Ok(());
        }
        for (lane, is_readable) in lanes.iter_mut().zip([forth, back]) {
            if is_readable {
                lane.read(&mut room)?;
            }
        }
    }
}
