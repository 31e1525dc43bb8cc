//! A TUN device: packets of this machine, read and written here.
//!
//! The device goes with its last descriptor, and its addresses and routes with it, however the process ends; so nothing is left behind
//! by one that was killed. One that an administrator made to stay is taken over: addresses that it should not have are removed.
//!
//! Every packet has a `virtio_net_hdr` before it ([`HEADER_BYTES`]), because the kernel leaves checksums and the cutting of long packets
//! to this side, and takes uncut packets from it.

mod bypass;
mod device;
mod passed_devices;
mod queue;
mod senders;
mod turn;

pub use bypass::Past;
pub(crate) use bypass::hash as device_hash;
pub use device::{MAX_QUEUES, TunDevice, TunError, TunSettings};
pub use passed_devices::PassedDevices;
pub use queue::{HEADER_BYTES, TunPort, TunQueue, TunWriter};
pub use senders::{Senders, SystemUsers, account_name, own_uid};
