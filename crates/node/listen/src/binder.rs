//! Binding the sockets that listeners still need, beside those that are bound already.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use hermes_config::model::ListenAddress;

use super::Socket;
use super::bind::{At, Bound, Serves, Wanted, bind};
use super::parts::{BoundSockets, Closing, Missing, OpenPart, Part};
use super::passed::{Passed, PassedSockets};

/// Attempts to find a port that is free for both TCP and UDP.
#[doc(alias = "bound")]
const PORT_TRIES: usize = 16;

/// Binds sockets. It knows those that are bound already, because not every kind can share a port.
pub(super) struct Binder<'a> {
    /// Sockets that the service manager opened.
    pub passed: &'a PassedSockets,
    pub(super) open: &'a BTreeMap<Part, OpenPart>,
    pub(super) closing: &'a [Closing],
}

impl Binder<'_> {
    /// Binds the parts of one listener that are missing. HTTP/3 has the port of the stream part, which is at `beside`, or among
    /// those that are missing.
    pub(super) fn bind_parts(
        &self,
        missing: &[Missing<'_>],
        beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<BoundSockets>> {
        let chosen = missing.len() > 1 && !missing[0].wanted.is_definite();
        let mut tries = if chosen { PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.bind_once(missing, beside, workers) {
                // The system chose a port that someone uses for UDP.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                done => return done,
            }
        }
    }

    fn bind_once(
        &self,
        missing: &[Missing<'_>],
        mut beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<BoundSockets>> {
        let mut done = Vec::new();
        for part in missing {
            let (bound, sockets) = match part.passed.as_slice() {
                [] => {
                    // One worker serves an ingress of datagrams: its knowledge of a peer is in one place.
                    let is_ingress = part.listener.ingress().is_some();
                    let of_one = is_ingress && part.wanted.serves == Serves::Datagrams;
                    let readers = if of_one { 1 } else { workers };
                    let (bound, sockets) = self.bind_own(part.wanted, beside, readers)?;
                    let sockets = sockets.into_iter();
                    let shareable = |socket| self.passed.shareable(socket, part.listener);
                    (bound, sockets.map(shareable).collect())
                }
                passed => {
                    self.check_passed(part, beside)?;
                    self.passed
                        .open(part.listener, part.wanted, passed, workers)?
                }
            };

            let own = sockets.iter().filter(|_| part.passed.is_empty());
            let opened = own.filter_map(Socket::descriptor);
            let descriptors = self.passed.descriptors();
            let entries = opened.map(|socket| descriptors.enter(part.name, &socket));

            beside = beside.or(bound.address());
            done.push(BoundSockets {
                wanted: part.wanted.clone(),
                bound,
                passed: part.passed.clone(),
                entries: entries.collect::<io::Result<_>>()?,
                sockets,
            });
        }

        Ok(done)
    }

    fn bind_own(
        &self,
        wanted: &Wanted,
        beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<(Bound, Vec<Socket>)> {
        let mut placed = wanted.clone();
        if let Some(address) = beside.filter(|_| wanted.serves == Serves::Quic) {
            placed.at = At::Address(ListenAddress::Ip(address));
        }

        // A port that moves from one of our sockets to another is shared until the old one lets go.
        let open = self.open.values().map(|open| (&open.wanted, &open.passed));
        let bound = open.chain(self.closing.iter().map(|old| (&old.wanted, &old.passed)));
        let bound_here = bound
            .filter(|(_, passed)| passed.is_empty())
            .map(|(old, _)| old);
        let ours: Vec<&Wanted> = bound_here.filter(|old| old.overlaps(wanted)).collect();

        // QUIC cannot share: the kernel would go on choosing among all sockets by connection IDs.
        if ours
            .iter()
            .any(|old| old.serves == Serves::Quic || wanted.serves == Serves::Quic)
        {
            return Err(still_served());
        }

        bind(&placed, workers, !ours.is_empty())
    }

    /// Whether passed sockets can be had now, for HTTP/3 beside the stream part.
    fn check_passed(&self, part: &Missing<'_>, beside: Option<SocketAddr>) -> io::Result<()> {
        let shares = |passed: &[Passed]| passed.iter().any(|number| part.passed.contains(number));
        let before = self.open.values().any(|open| shares(&open.passed));
        let before = before || self.closing.iter().any(|old| shares(&old.passed));

        // Datagrams for the part that had the socket would reach the one that has it now. A connection stays where it was accepted.
        if before && part.wanted.serves != Serves::Streams {
            return Err(still_served());
        }

        let port = |number: &Passed| self.passed.port(*number);
        match (beside, part.passed.first().and_then(port)) {
            (Some(streams), Some(port))
                if part.wanted.serves == Serves::Quic && streams.port() != port =>
            {
                let reason = format!(
                    "the UDP socket that was passed has port {port}, and HTTP/3 needs that of {streams}"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
            _ => Ok(()),
        }
    }
}

fn still_served() -> io::Error {
    let reason =
        "the port still serves UDP or HTTP/3 from before: reload again when that has ended";
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}
