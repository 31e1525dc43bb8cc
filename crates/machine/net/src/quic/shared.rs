//! Which process has the packets of a UDP socket that several have.
//!
//! A packet with a connection ID of ours goes to the process that it names. All others belong to
//! new clients, or to connections of no process: the newest process serves them, so that a
//! ClientHello of several packets meets one process. A forwarded packet is served or dropped by its
//! receiver, never forwarded again.

use std::io::IoSliceMut;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use quinn::udp::{EcnCodepoint, RecvMeta};

use super::cid::{LENGTH, process_of};
use crate::shared_socket::{ForwardKind, Forwarded, ProcessTag, ReceivedRun, Sibling, Siblings};

/// The owner of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketOwner {
    /// This process.
    Own,
    /// The process that it names.
    Named(Sibling),
    /// The newest one, for no process is named.
    Newest(Sibling),
}

/// The process that a packet is for, by its connection ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// A connection ID of the length of ours, in the form of an established connection.
    Named(ProcessTag),
    /// The same, where a client may have made up the connection ID.
    PerhapsNamed(ProcessTag),
    /// A connection ID of another length.
    New,
    /// The packet is too short.
    Malformed,
}

/// The other processes, as an endpoint sees them.
#[derive(Debug)]
pub(super) struct SharedPackets {
    siblings: Mutex<Siblings>,
    /// Where forwarded packets are received.
    room: Mutex<Vec<u8>>,
}

impl SharedPackets {
    pub(super) fn new(siblings: Siblings) -> Self {
        Self {
            siblings: Mutex::new(siblings),
            room: Mutex::default(),
        }
    }

    /// Lets another process have the clients that come.
    pub(super) fn drain(&self) {
        self.siblings.lock().drain();
    }

    /// Takes packets that another process forwards: one run.
    pub(super) fn poll_forwarded(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<usize> {
        let mut siblings = self.siblings.lock();
        let mut room = self.room.lock();
        loop {
            let arrived = ready!(siblings.poll_next(cx, &mut room));
            let Some(Forwarded { run, .. }) = arrived.decode(&room) else {
                continue;
            };
            let (Some(buf), Some(meta)) = (bufs.first_mut(), meta.first_mut()) else {
                return Poll::Ready(0);
            };
            // Longer than any packet that a peer was allowed: it is lost.
            let Some(buf) = buf.get_mut(..run.bytes.len()) else {
                continue;
            };

            buf.copy_from_slice(run.bytes);
            *meta = RecvMeta {
                addr: run.source,
                len: run.bytes.len(),
                stride: run.stride,
                ecn: EcnCodepoint::from_bits(run.ecn),
                dst_ip: run.local,
            };
            return Poll::Ready(1);
        }
    }

    /// Forwards those of the received packets that are another process's, and leaves the others.
    pub(super) fn sort(&self, bufs: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) {
        let mut siblings = self.siblings.lock();
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            sort_run(&mut siblings, buf, meta);
        }
    }
}

/// Forwards the packets of a run, and moves those that stay together.
fn sort_run(siblings: &mut Siblings, buf: &mut [u8], meta: &mut RecvMeta) {
    let stride = meta.stride.max(1);
    let mut kept = 0;
    let mut at = 0;

    while at < meta.len {
        let first = owner(siblings, &buf[at..meta.len.min(at + stride)]);
        let mut end = meta.len.min(at + stride);
        // Neighbours that have the same owner travel together.
        while end < meta.len && owner(siblings, &buf[end..meta.len.min(end + stride)]) == first {
            end = meta.len.min(end + stride);
        }

        if is_taken(siblings, first, meta, &buf[at..end]) {
            at = end;
            continue;
        }
        if kept < at {
            buf.copy_within(at..end, kept);
        }
        kept += end - at;
        at = end;
    }

    meta.len = kept;
}

/// Whether packets are another process's, which is given them.
fn is_taken(siblings: &Siblings, owner: PacketOwner, meta: &RecvMeta, bytes: &[u8]) -> bool {
    let run = ReceivedRun {
        source: meta.addr,
        local: meta.dst_ip,
        ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
        stride: meta.stride.max(1),
        bytes,
    };

    match owner {
        PacketOwner::Own => false,
        // While this process still serves new clients, it does so if the newer one takes no more: that may stand still.
        PacketOwner::Newest(sibling) if !siblings.drains() => {
            siblings.try_forward(sibling, ForwardKind::Final, &run)
        }
        PacketOwner::Named(sibling) | PacketOwner::Newest(sibling) => {
            siblings.forward(sibling, ForwardKind::Final, &run);
            true
        }
    }
}

fn owner(siblings: &mut Siblings, packet: &[u8]) -> PacketOwner {
    let (tag, is_new) = match destination(packet) {
        Destination::Named(tag) => (Some(tag), false),
        Destination::PerhapsNamed(tag) => (Some(tag), true),
        Destination::New => (None, true),
        Destination::Malformed => (None, false),
    };

    if let Some(tag) = tag {
        if tag == siblings.tag() {
            return PacketOwner::Own;
        }
        let mut named = siblings.named(tag);
        if named.is_none() && !is_new {
            siblings.look_again();
            named = siblings.named(tag);
        }
        if let Some(sibling) = named {
            return PacketOwner::Named(sibling);
        }
    }

    if !is_new {
        return PacketOwner::Own;
    }
    // The packet may have come before the news of the process that is to have it.
    siblings.look_again();
    siblings
        .newest()
        .map_or(PacketOwner::Own, PacketOwner::Newest)
}

/// Reads the destination connection ID: RFC 9000, 17.2 (long header: flags, version, length, the ID) and 17.3.1 (short header: flags, the
/// ID). The layout of long headers is that of every version (RFC 8999).
fn destination(packet: &[u8]) -> Destination {
    let Some((flags, rest)) = packet.split_first() else {
        return Destination::Malformed;
    };
    let is_long = flags & 0x80 != 0;

    if !is_long {
        return match rest.first_chunk::<LENGTH>() {
            Some(id) => Destination::Named(process_of(*id)),
            None => Destination::Malformed,
        };
    }
    let Some((length, id)) = rest.get(4..).and_then(<[u8]>::split_first) else {
        return Destination::Malformed;
    };
    match id.first_chunk::<LENGTH>() {
        Some(id) if usize::from(*length) == LENGTH => Destination::PerhapsNamed(process_of(*id)),
        _ => Destination::New,
    }
}
