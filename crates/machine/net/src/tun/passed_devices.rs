//! Devices that the process before this one gave.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;

use super::device::{TunDevice, TunError, TunSettings};
use super::queue::TunQueue;
use super::turn::{DeviceTurn, is_over};
use crate::activation::{PassedKind, PassedSocket};
use crate::descriptor_table::DescriptorTable;

/// The devices, by name, until they are opened here. Bounded by the descriptors that a process takes.
#[derive(Debug, Default)]
pub struct PassedDevices {
    waiting: Mutex<HashMap<String, PassedDevice>>,
    descriptors: DescriptorTable,
}

/// A device that an earlier process may still read.
#[derive(Debug, Default)]
struct PassedDevice {
    queues: Vec<OwnedFd>,
    /// The turns of earlier processes.
    earlier: Vec<OwnedFd>,
    /// The turn of this process, which a third one waits for.
    own: Option<DeviceTurn>,
}

impl PassedDevices {
    /// Takes queues and turns as they were given. Those that this process opens are entered into `descriptors` for the next one.
    #[must_use]
    pub fn new(given: Vec<PassedSocket>, descriptors: DescriptorTable) -> Self {
        let mut waiting: HashMap<String, PassedDevice> = HashMap::new();
        for passed in given {
            match (passed.kind.clone(), passed.name.clone()) {
                (PassedKind::TunQueue(device), _) => {
                    let device = waiting.entry(device).or_default();
                    device.queues.push(passed.into());
                }
                (PassedKind::Pipe, Some(device)) => {
                    let device = waiting.entry(device).or_default();
                    device.earlier.push(passed.into());
                }
                _ => {}
            }
        }

        for (name, device) in &mut waiting {
            match device.turn(name, &descriptors) {
                Ok(turn) => device.own = turn,
                Err(error) => {
                    tracing::warn!(device = name, %error, "no other process can have the device");
                }
            }
        }
        Self {
            waiting: Mutex::new(waiting),
            descriptors,
        }
    }

    /// Opens a device: the passed one of its name, else as [`TunDevice::open`].
    ///
    /// # Errors
    /// [`TunError`], also while an earlier process has it.
    pub fn open(&self, settings: &TunSettings) -> Result<(TunDevice, Vec<TunQueue>), TunError> {
        let name = &settings.name;
        let mut waiting = self.waiting.lock();
        if let Some(device) = waiting.get_mut(name) {
            device.earlier.retain(|turn| !is_over(turn));
            if !device.earlier.is_empty() {
                let reason = "the process before this one has it until it ends";
                let busy = io::Error::new(io::ErrorKind::WouldBlock, reason);
                return Err(TunError::of(name, "taking it over", busy));
            }
        }
        let passed = waiting.remove(name).unwrap_or_default();
        drop(waiting);

        let (mut device, queues) = TunDevice::take(settings, passed.queues)?;
        let turn = match passed.own {
            Some(turn) => Ok(Some(turn)),
            None => turn_at(device.name(), &queues, &self.descriptors),
        };
        let failed = |error| TunError::of(name, "sharing it with a successor", error);
        device.keep(turn.map_err(failed)?);
        Ok((device, queues))
    }

    /// Whether an earlier process may have this device still.
    pub fn is_waiting(&self, name: &str) -> bool {
        self.waiting.lock().contains_key(name)
    }

    /// Forgets the devices that the document does not ask for.
    pub fn retain(&self, is_wanted: impl Fn(&str) -> bool) {
        self.waiting.lock().retain(|name, _| is_wanted(name));
    }

    /// Resolves when an earlier process has let go of one of these devices.
    pub async fn freed(&self, names: &[&str]) {
        let mut turns = self.earlier(names);
        poll_fn(|cx| {
            let mut byte = [0];
            let mut is_over = |turn: &mut Receiver| {
                let mut room = ReadBuf::new(&mut byte);
                Pin::new(turn).poll_read(cx, &mut room).is_ready()
            };
            match turns.iter_mut().any(&mut is_over) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// The turns that these devices wait for, in the runtime that this is called in.
    fn earlier(&self, names: &[&str]) -> Vec<Receiver> {
        let waiting = self.waiting.lock();
        let devices = names.iter().filter_map(|name| waiting.get(*name));
        let turns = devices.flat_map(|device| &device.earlier);
        let receivers =
            turns.filter_map(|turn| Receiver::from_owned_fd(turn.try_clone().ok()?).ok());
        receivers.collect()
    }
}

impl PassedDevice {
    /// The turn of this process after those of earlier ones.
    fn turn(&self, name: &str, descriptors: &DescriptorTable) -> io::Result<Option<DeviceTurn>> {
        let mut turn = turn_at(name, &self.queues, descriptors)?;
        if let Some(turn) = &mut turn {
            for earlier in &self.earlier {
                turn.enter(name, earlier, descriptors)?;
            }
        }
        Ok(turn)
    }
}

/// The turn of this process at a device with these queues, if another process may have the next one.
fn turn_at(
    name: &str,
    queues: &[impl AsFd],
    descriptors: &DescriptorTable,
) -> io::Result<Option<DeviceTurn>> {
    if !descriptors.has_successor() {
        return Ok(None);
    }
    let mut turn = DeviceTurn::begin(name, descriptors)?;
    for queue in queues {
        turn.enter(name, queue, descriptors)?;
    }
    Ok(Some(turn))
}
