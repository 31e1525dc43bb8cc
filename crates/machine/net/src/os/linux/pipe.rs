//! A pipe between two sockets: bytes pass through it inside the kernel (`splice`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::descriptors::claim;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// A pipe, and how much is in it.
#[derive(Debug)]
pub struct Pipe {
    near: OwnedFd,
    far: OwnedFd,
    held: usize,
}

impl Pipe {
    /// An empty pipe that holds about `size` bytes; less where the system allows no more.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(size: usize) -> io::Result<Self> {
        let (far, near) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let far = claim(far)?;
        let near = claim(near)?;
        // A smaller one serves too.
        let _ = fcntl_setpipe_size(&near, size);
        Ok(Self { near, far, held: 0 })
    }

    /// Takes up to `most` bytes that have come to a socket; 0 at the end of its input. To be called on an empty pipe only, so
    /// that [`io::ErrorKind::WouldBlock`] speaks of the socket.
    ///
    /// # Errors
    /// The socket's error.
    pub fn fill(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let taken = splice(socket, None, &self.near, None, most, flags)?;
        self.held += taken;
        Ok(taken)
    }

    /// Moves the bytes of the pipe to a socket, as far as it has room.
    ///
    /// # Errors
    /// The socket's error.
    pub fn empty(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let given = splice(&self.far, None, socket, None, self.held, flags)?;
        self.held -= given;
        Ok(given)
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }
}
