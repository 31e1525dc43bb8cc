//! One queue of a TUN device.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, read, writev};
use tokio::io::unix::AsyncFd;

use crate::os::foreign_tun;

/// Bytes of the `virtio_net_hdr` before each packet (OASIS VIRTIO 1.2, section 5.1.6).
pub const HEADER_BYTES: usize = 10;

/// A queue that no runtime knows yet.
#[derive(Debug)]
pub struct TunQueue {
    descriptor: Arc<OwnedFd>,
    trust: QueueTrust,
}

/// Whether other processes have the queue as well, and may change it under this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueTrust {
    /// Only this process, and others of its kind.
    Own,
    /// A program gave it, and may have kept it: it can make reading and writing wait, unless each call says that it must not.
    Foreign,
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
    trust: QueueTrust,
}

/// A queue of the runtime of a worker.
#[derive(Debug)]
pub struct TunPort {
    queue: AsyncFd<Arc<OwnedFd>>,
    trust: QueueTrust,
}

impl TunQueue {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
            trust: QueueTrust::Own,
        }
    }

    /// One that this process has made, and no other process has.
    #[must_use]
    pub fn own(descriptor: OwnedFd) -> Self {
        Self::new(descriptor)
    }

    /// One that a program gave, which may have kept it.
    ///
    /// # Errors
    /// `InvalidInput`: it is none. `Unsupported`: the kernel cannot read it without waiting for the program that has it, too.
    pub fn foreign(descriptor: OwnedFd) -> io::Result<Self> {
        foreign_tun(&descriptor)?;
        // An empty room takes no packet away: it is refused, or there is none.
        let tried = preadv2(&descriptor, &mut [], 0, ReadWriteFlags::NOWAIT);
        if matches!(tried, Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
            let reason = "this kernel reads TUN devices of others only with waiting for them";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        Ok(Self {
            descriptor: Arc::new(descriptor),
            trust: QueueTrust::Foreign,
        })
    }

    /// Writes into it.
    pub fn writer(&self) -> TunWriter {
        TunWriter {
            descriptor: self.descriptor.clone(),
            trust: self.trust,
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
        Ok(TunPort {
            queue,
            trust: self.trust,
        })
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
            let tried = ready.try_io(|queue| self.read(queue.get_ref(), room));
            if let Ok(result) = tried {
                return Poll::Ready(result);
            }
        }
    }

    fn read(&self, queue: &OwnedFd, room: &mut [u8]) -> io::Result<usize> {
        Ok(match self.trust {
            QueueTrust::Own => read(queue, room)?,
            QueueTrust::Foreign => {
                let mut room = [IoSliceMut::new(room)];
                preadv2(queue, &mut room, 0, ReadWriteFlags::NOWAIT)?
            }
        })
    }

    /// Writes a packet with its header. The device takes a packet at once or not at all, and is
    /// never waited for: without memory the packet is lost, as on any link.
    ///
    /// # Errors
    /// `InvalidInput`: it is no packet, or not one that its header can be about; the next may be. Others: the device is gone, or down.
    pub fn write(&self, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
        write(self.queue.get_ref(), self.trust, header, packet)
    }
}

impl TunWriter {
    /// As [`TunPort::write`].
    ///
    /// # Errors
    /// As [`TunPort::write`].
    pub fn write(&self, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
        write(&self.descriptor, self.trust, header, packet)
    }
}

fn write(
    descriptor: &OwnedFd,
    trust: QueueTrust,
    header: &[u8; HEADER_BYTES],
    packet: &[u8],
) -> io::Result<()> {
    let parts = [IoSlice::new(header), IoSlice::new(packet)];
    match trust {
        QueueTrust::Own => writev(descriptor, &parts)?,
        QueueTrust::Foreign => pwritev2(descriptor, &parts, 0, ReadWriteFlags::NOWAIT)?,
    };
    Ok(())
}
