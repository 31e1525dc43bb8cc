//! Descriptors of the process: those kept back from the data plane, and how often descriptors or
//! memory ran out.
//!
//! The system gives out the lowest number that is free (POSIX.1-2024, 2.6). So a number at or above
//! the ceiling shows, without counting, that all below it are taken; the data plane closes it
//! again. Numbers above the ceiling are for administration and reloads, however much traffic there
//! is.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;

/// Descriptors that are kept back at most: 64 connections each to the admin socket and to the
/// metrics, a listener or two for each of 64 workers, files.
#[doc(alias = "bound")]
const MOST_KEPT: usize = 512;

/// Descriptors that are kept back even where there are few, as long as that is a quarter of them at
/// most.
#[doc(alias = "bound")]
const LEAST_KEPT: usize = 64;

static CEILING: AtomicUsize = AtomicUsize::new(usize::MAX);
static NO_DESCRIPTOR: AtomicU64 = AtomicU64::new(0);
static NO_PORT: AtomicU64 = AtomicU64::new(0);

/// Keeps some of `limit` descriptors back from now on.
pub fn keep_back(limit: u64) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    CEILING.store(limit - kept_of(limit), Ordering::Relaxed);
}

fn kept_of(limit: usize) -> usize {
    (limit / 8).clamp(LEAST_KEPT.min(limit / 4), MOST_KEPT)
}

/// Descriptors that the data plane may use; as many as it likes where nothing is known of a limit.
#[must_use]
pub fn ceiling() -> usize {
    CEILING.load(Ordering::Relaxed)
}

/// Takes a descriptor that was just opened for the data plane.
///
/// # Errors
/// The descriptor is one of those kept back: `EMFILE`, and it is closed.
pub fn claim<T: AsFd>(opened: T) -> io::Result<T> {
    if is_kept_back(&opened) {
        Err(noted(Errno::MFILE.into()))
    } else {
        Ok(opened)
    }
}

/// Whether a descriptor is one of those that are kept back.
pub(crate) fn is_kept_back(opened: &impl AsFd) -> bool {
    usize::try_from(opened.as_fd().as_raw_fd()).unwrap_or_default() >= ceiling()
}

/// The resource that ran out, if an error reports a shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Descriptors, of this process or of the system.
    Descriptors,
    /// Local ports towards one destination.
    Ports,
}

impl Shortage {
    /// The shortage in an error of opening or connecting a socket.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_raw_os_error(error.raw_os_error()?) {
            Errno::MFILE | Errno::NFILE => Some(Self::Descriptors),
            // UDP says EAGAIN (udp_lib_get_port); a TCP socket that does not block never does on connecting.
            Errno::ADDRNOTAVAIL | Errno::AGAIN => Some(Self::Ports),
            _ => None,
        }
    }
}

/// Counts an error that says that something ran out; the same error.
pub(crate) fn noted(error: io::Error) -> io::Error {
    match Shortage::of(&error) {
        Some(Shortage::Descriptors) => NO_DESCRIPTOR.fetch_add(1, Ordering::Relaxed),
        Some(Shortage::Ports) => NO_PORT.fetch_add(1, Ordering::Relaxed),
        None => 0,
    };
    error
}

/// Counts that someone was refused for having too many of those that are left.
pub fn note_refusal() {
    NO_DESCRIPTOR.fetch_add(1, Ordering::Relaxed);
}

/// How often descriptors, and local ports, were missing so far.
#[must_use]
pub fn shortages() -> [(Shortage, u64); 2] {
    [
        (Shortage::Descriptors, &NO_DESCRIPTOR),
        (Shortage::Ports, &NO_PORT),
    ]
    .map(|(what, count)| (what, count.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_back_of_any_limit() {
        let kept: Vec<usize> = [64, 256, 1024, 4096, 1 << 20, usize::MAX]
            .map(kept_of)
            .into();
        assert_eq!(kept, [16, 64, 128, 512, 512, 512]);
    }

    #[test]
    fn errors_say_what_ran_out() {
        let of = |errno: Errno| Shortage::of(&errno.into());
        assert_eq!(of(Errno::MFILE), Some(Shortage::Descriptors));
        assert_eq!(of(Errno::NFILE), Some(Shortage::Descriptors));
        assert_eq!(of(Errno::ADDRNOTAVAIL), Some(Shortage::Ports));
        assert_eq!(of(Errno::CONNREFUSED), None);
        assert_eq!(Shortage::of(&io::Error::other("words")), None);
    }
}
