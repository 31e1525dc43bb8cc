//! Bytes from one TCP connection to another inside the kernel, through a pipe that is held only while something is in it.

use std::cell::RefCell;
use std::io;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::os::Pipe;

/// Bytes that a pipe holds in the kernel. Larger pipes measured no faster, and a receiver that has
/// stopped pins them.
#[doc(alias = "bound")]
const PIPE_BYTES: usize = 256 * 1024;

/// Empty pipes that a thread keeps for the next connection.
#[doc(alias = "bound")]
const KEPT_PIPES: usize = 16;

/// Pipes of a thread at once: two descriptors each. Connections beyond that are copied.
#[doc(alias = "bound")]
const PIPES: usize = 1024;

/// Bytes after which the other tasks of the thread have their turn.
#[doc(alias = "bound")]
const TURN: usize = 1024 * 1024;

/// Bytes that must arrive at once for another wait to be worth it; below, a copy costs less than a
/// pipe.
const WORTH: usize = 16 * 1024;

/// How a direction was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spliced {
    /// The sender has ended it.
    End,
    /// As much as was asked for has gone.
    All,
    /// Little came the last time, or there is no pipe: it had better be copied. Nothing is lost.
    Little,
}

/// Why a direction cannot go on.
#[derive(Debug)]
pub enum SpliceError {
    /// Reading failed.
    Read(io::Error),
    /// Writing failed.
    Write(io::Error),
    /// The receiver broke while there was nothing to write.
    Broken,
}

/// Moves bytes from one connection to the other, at most this many and while they come in bulk;
/// calls `moved` with each count. Bytes of the sender behind those stay unread.
///
/// Dropping the future may lose bytes: the connections cannot be used any more then.
///
/// # Errors
/// Which side failed, and how.
pub async fn splice(
    from: &TcpStream,
    to: &TcpStream,
    mut most: u64,
    mut moved: impl FnMut(usize),
) -> Result<Spliced, SpliceError> {
    loop {
        let Some(mut pipe) = BorrowedPipe::take() else {
            return Ok(Spliced::Little);
        };
        let came = match pass(&mut pipe, from, to, &mut most, &mut moved).await? {
            Some(_) if most == 0 => return Ok(Spliced::All),
            Some(came) => came,
            None => return Ok(Spliced::End),
        };

        // Before the wait: there are few pipes, and many connections that wait.
        drop(pipe);
        // Two system calls a pass: few bytes are cheaper to copy.
        if came < WORTH {
            return Ok(Spliced::Little);
        }

        tokio::select! {
            biased;
            ready = from.readable() => ready.map_err(SpliceError::Read)?,
            _ = to.ready(Interest::ERROR) => return Err(SpliceError::Broken),
        }
    }
}

/// Moves available bytes, at most this many; `None` at the end, otherwise their number.
async fn pass(
    pipe: &mut BorrowedPipe,
    from: &TcpStream,
    to: &TcpStream,
    most: &mut u64,
    moved: &mut impl FnMut(usize),
) -> Result<Option<usize>, SpliceError> {
    let Some(pipe) = &mut pipe.pipe else {
        return Ok(Some(0));
    };
    let mut came = 0;
    let mut turn = 0;

    while *most > 0 {
        let room = usize::try_from(*most).map_or(PIPE_BYTES, |most| most.min(PIPE_BYTES));
        let taken = match from.try_io(Interest::READABLE, || pipe.fill(from, room)) {
            Ok(0) => return Ok(None),
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(came)),
            // Under TLS of the kernel, a record that is no content comes next, which a read takes.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                return Ok(Some(came));
            }
            Err(error) => return Err(SpliceError::Read(error)),
        };

        // The pipe is emptied before it is filled again: bytes left in it would be lost with an
        // error.
        while pipe.held() > 0 {
            match to.try_io(Interest::WRITABLE, || pipe.empty(to)) {
                Ok(given) => moved(given),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    to.writable().await.map_err(SpliceError::Write)?;
                }
                Err(error) => return Err(SpliceError::Write(error)),
            }
        }

        *most -= taken as u64;
        (came, turn) = (came + taken, turn + taken);
        // A fast pair of sockets would never be pending, and starve the worker's other tasks.
        if turn >= TURN {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }

    Ok(Some(came))
}

/// The pipes of a thread.
#[derive(Default)]
struct Pipes {
    kept: Vec<Pipe>,
    lent: usize,
}

thread_local! {
    static PIPES_HERE: RefCell<Pipes> = RefCell::default();
}

/// A pipe that goes back to its thread's when it is dropped empty.
struct BorrowedPipe {
    /// `None` only while it is dropped.
    pipe: Option<Pipe>,
}

impl BorrowedPipe {
    /// A pipe; `None` if there are too many, no descriptor is left, or the system has no splicing.
    fn take() -> Option<Self> {
        PIPES_HERE.with_borrow_mut(|pipes| {
            if pipes.lent >= PIPES {
                return None;
            }
            let pipe = pipes.kept.pop().or_else(|| Pipe::new(PIPE_BYTES).ok())?;
            pipes.lent += 1;
            Some(Self { pipe: Some(pipe) })
        })
    }
}

impl Drop for BorrowedPipe {
    fn drop(&mut self) {
        // A pipe with bytes left belongs to a connection that broke.
        let pipe = self.pipe.take().filter(|pipe| pipe.held() == 0);
        // A thread that ends keeps nothing.
        let _ = PIPES_HERE.try_with(|pipes| {
            let mut pipes = pipes.borrow_mut();
            pipes.lent = pipes.lent.saturating_sub(1);
            if pipes.kept.len() < KEPT_PIPES {
                pipes.kept.extend(pipe);
            }
        });
    }
}
