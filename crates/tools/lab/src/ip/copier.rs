//! The bound: packets are copied between two TUN devices as the kernel gives them, uncut, with their headers, without encryption and without
//! a network in between. A tunnel that does anything else can hardly be faster.

use std::fs::File;
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use hermes_net::tun::{HEADER_BYTES, TunDevice, TunPort, TunQueue, TunSettings};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::network::{FAR_INNER, NEAR_INNER, inner};

/// Bytes of the largest packet, with its header.
const ROOM: usize = HEADER_BYTES + 65_536;

/// Name of both devices.
const DEVICE: &str = "copier";

/// The size to which the kernel cuts TCP for a device of this MTU; uncut packets are longer.
const MTU: u32 = 1500;

/// Options of the hidden command.
#[derive(Debug, clap::Args)]
pub struct CopierArguments {
    /// The file of the network namespace of one device.
    #[arg(long)]
    near: PathBuf,
    /// That of the other.
    #[arg(long)]
    far: PathBuf,
}

/// Copies until the process is ended: one thread for each direction.
///
/// # Errors
/// When a device cannot be made, or is gone.
pub fn copy(arguments: &CopierArguments) -> Result<()> {
    let near = open_in(&arguments.near, NEAR_INNER)?;
    let far = open_in(&arguments.far, FAR_INNER)?;

    let near_runtime = runtime()?;
    let far_runtime = runtime()?;
    let near = register(&near_runtime, near.1)?;
    let far = register(&far_runtime, far.1)?;
    let (failed, failure) = oneshot::channel();

    let back = (Arc::clone(&far), Arc::clone(&near));
    thread::spawn(move || {
        let ended = far_runtime.block_on(forward(&back.0, &back.1));
        // No one listens where the other direction has failed first.
        drop(failed.send(ended));
    });
    near_runtime.block_on(async {
        tokio::select! {
            ended = forward(&near, &far) => ended,
            ended = failure => ended.context("the other direction panicked")?,
        }
    })
}

async fn forward(from: &TunPort, to: &TunPort) -> Result<()> {
    let mut room = vec![0; ROOM];
    loop {
        let length = poll_fn(|cx| from.poll_read(cx, &mut room)).await?;
        let Some((header, packet)) = room[..length].split_first_chunk() else {
            continue;
        };
        // A packet that a full device rejects is lost, as on any link.
        drop(to.write(header, packet));
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

fn register(runtime: &Runtime, queue: TunQueue) -> Result<Arc<TunPort>> {
    let _inside = runtime.enter();
    Ok(Arc::new(queue.register()?))
}

/// A device with this address, in a namespace. A thread that has entered one cannot leave it again, so each has a thread of its own.
fn open_in(namespace: &Path, address: std::net::Ipv4Addr) -> Result<(TunDevice, TunQueue)> {
    let file = File::open(namespace).with_context(|| namespace.display().to_string())?;
    let opening = thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let settings = TunSettings {
            name: DEVICE.to_owned(),
            queues: 1,
            mtu: MTU,
            addresses: vec![inner(address)],
            routes: Vec::new(),
            past: None,
            masquerade: false,
        };
        let (device, mut queues) = TunDevice::open(&settings)?;
        let queue = queues.pop().context("a device without queues")?;
        Ok((device, queue))
    });
    let opened = opening.join();
    opened.map_err(|_| anyhow!("opening a device panicked"))?
}
