//! A link between two namespaces: a TUN device in each, and a thread between them that obeys the two directions.
//!
//! Times are right within two milliseconds, the resolution of the run time's timers. It needs root.

use std::sync::Arc;
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use tokio::sync::Notify;
use tokio::time::sleep_until;
use tun_rs::{AsyncDevice, DeviceBuilder};

use super::{Direction, Profile};
use crate::topology::Namespace;

/// Bytes of the largest packet on the link.
const MTU: u16 = 1500;
/// Packets that the kernel keeps for us: our own queue decides what is lost.
const KERNEL_QUEUE: u32 = 10_000;

/// A running link. Dropping it takes the devices away.
#[derive(Debug)]
pub struct Wire {
    end: Arc<Notify>,
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
        let profiles = [one.profile.clone(), other.profile.clone()];
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);

        let thread = spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let [one, other] = devices.map(|device| AsyncDevice::new(device).map(Arc::new));
                let one = one?;
                let other = other?;
                let [forth, back] = profiles;

                tokio::select! {
                    done = forward(&one, &other, Direction::new(forth, seed, start)) => done,
                    done = forward(&other, &one, Direction::new(back, !seed, start)) => done,
                    () = ended.notified() => Ok(()),
                }
            })
        });

        Ok(Self {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("link: {error:#}");
        }
    }
}

impl End<'_> {
    /// Opens the device. A thread goes into the namespace for it and ends there.
    fn open(&self) -> Result<tun_rs::SyncDevice> {
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

        self.namespace.attach(self.device, self.address)?;
        Ok(device)
    }
}

/// Packets of one direction, until a device is gone.
async fn forward(
    from: &AsyncDevice,
    to: &AsyncDevice,
    mut direction: Direction<Vec<u8>>,
) -> Result<()> {
    let mut room = vec![0; usize::from(MTU)];
    loop {
        while let Some(packet) = direction.poll_departure(Instant::now()) {
            // The other device may be down for a moment; a packet is lost then, as on any link.
            to.send(&packet).await.ok();
        }

        let next = direction.next_departure();
        tokio::select! {
            biased;
            () = until(next) => {}
            read = from.recv(&mut room) => {
                let length = read?;
                direction.handle_packet(room[..length].to_vec(), length, Instant::now());
            }
        }
    }
}

/// Waits for a time; without one, for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
