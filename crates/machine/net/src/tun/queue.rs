//! One queue of a TUN device.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::{read, writev};
use tokio::io::unix::AsyncFd;

/// Bytes of the `virtio_net_hdr` before each packet (OASIS VIRTIO 1.2, section 5.1.6).
pub const HEADER_BYTES: usize = 10;

/// A queue that no runtime knows yet.
#[derive(Debug)]
pub struct TunQueue {
    descriptor: Arc<OwnedFd>,
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Writes into a queue that another task may read.
#[derive(Debug, Clone)]
pub struct TunWriter {
    descriptor: Arc<OwnedFd>,
}

/// A queue of the runtime of a worker.
#[derive(Debug)]
pub struct TunPort {
    queue: AsyncFd<Arc<OwnedFd>>,
}

impl TunQueue {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
        }
    }

    /// Writes into it.
    pub fn writer(&self) -> TunWriter {
        TunWriter {
            descriptor: self.descriptor.clone(),
        }
    }

    /// Gives it to the runtime that this is called in.
    ///
    /// # Errors
    /// The runtime takes no more descriptors.
    pub fn register(self) -> io::Result<TunPort> {
        // SAFETY: an `OwnedFd` is open, and the same descriptor, for as long as it lives, and `AsyncFd` keeps it.
        #[expect(unsafe_code, reason = "tokio trusts a descriptor's type no longer")]
        let registered = unsafe { AsyncFd::register(self.descriptor) };
        let queue = registered.map_err(|error| error.into_parts().1)?;
        Ok(TunPort { queue })
    }
}

impl TunPort {
    /// Polls to read a packet behind its header. Returns the length of both. Several are read by calling it again, each by one system
    /// call, until it waits: then all that was ready has been read.
    ///
    /// # Errors
    /// The device is gone.
    pub fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.queue.poll_read_ready(cx))?;
            let tried = ready.try_io(|queue| Ok(read(queue, &mut *room)?));
            if let Ok(result) = tried {
                return Poll::Ready(result);
            }
        }
    }

    /// Writes a packet with its header. The device takes a packet at once or not at all, and is
    /// never waited for: without memory the packet is lost, as on any link.
    ///
    /// # Errors
    /// `InvalidInput`: it is no packet, or not one that its header can be about; the next may be. Others: the device is gone, or down.
    pub fn write(&self, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
        write(self.queue.get_ref(), header, packet)
    }
}

impl TunWriter {
    /// As [`TunPort::write`].
    ///
    /// # Errors
    /// As [`TunPort::write`].
    pub fn write(&self, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
        write(&self.descriptor, header, packet)
    }
}

fn write(descriptor: &OwnedFd, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
    let parts = [IoSlice::new(header), IoSlice::new(packet)];
    writev(descriptor, &parts)?;
    Ok(())
}
