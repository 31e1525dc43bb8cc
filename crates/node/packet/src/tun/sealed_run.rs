//! Messages of WireGuard that leave by one system call: they go to one place, and all but the last have one length.

use std::net::{IpAddr, SocketAddr};

/// Bytes that are sent at once: as many as the kernel cuts.
#[doc(alias = "bound")]
const MOST_BYTES: usize = 63 * 1024;

/// From which address of this machine, if that is known, and where to.
pub(super) type RunAddresses = (Option<IpAddr>, SocketAddr);

/// Messages that go together.
#[derive(Debug, Default)]
pub(super) struct SealedRun {
    /// One behind the other.
    pub(super) bytes: Vec<u8>,
    /// The length of each but the last.
    pub(super) segment: usize,
    pub(super) to: Option<RunAddresses>,
    /// The last packet was shorter: no packet may follow.
    is_ended: bool,
}

impl SealedRun {
    /// Where the next message begins.
    pub(super) fn begin(&self) -> usize {
        self.bytes.len()
    }

    /// A message was written from `begin` on. If it cannot go with those before, these are sent.
    pub(super) fn end(&mut self, begin: usize, to: RunAddresses, send: impl FnOnce(&Self)) {
        let length = self.bytes.len() - begin;
        let fits = self.to == Some(to)
            && !self.is_ended
            && length <= self.segment
            && self.bytes.len() <= MOST_BYTES;
        if fits {
            self.is_ended = length < self.segment;
            return;
        }

        if begin > 0 {
            let message = self.bytes.split_off(begin);
            send(self);
            self.bytes.clear();
            self.bytes.extend_from_slice(&message);
        }
        self.segment = length;
        self.to = Some(to);
        self.is_ended = false;
    }

    /// All of it was sent.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.to = None;
    }

    /// Whether there is something to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(run: &mut SealedRun, message: &[u8], port: u16, sent: &mut Vec<(usize, usize)>) {
        let begin = run.begin();
        run.bytes.extend_from_slice(message);
        let to = (None, ([192, 0, 2, 1], port).into());
        run.end(begin, to, |run| sent.push((run.bytes.len(), run.segment)));
    }

    #[test]
    fn messages_of_one_length_go_together_and_a_shorter_one_ends_them() {
        let mut run = SealedRun::default();
        let mut sent = Vec::new();
        for length in [100, 100, 60, 100, 120] {
            put(&mut run, &vec![1; length], 1, &mut sent);
        }
        assert_eq!(sent, [(260, 100), (100, 100)]);
        put(&mut run, &[2; 120], 2, &mut sent);
        assert_eq!(sent[2], (120, 120));
        assert_eq!((run.bytes.as_slice(), run.segment), (&[2; 120][..], 120));
    }

    #[test]
    fn no_more_goes_at_once_than_the_kernel_cuts() {
        let mut run = SealedRun::default();
        let mut sent = Vec::new();
        for _ in 0..100 {
            put(&mut run, &[0; 1452], 1, &mut sent);
        }
        assert!(!sent.is_empty());
        assert!(
            sent.iter().all(|(bytes, _)| *bytes <= MOST_BYTES),
            "{sent:?}"
        );
    }
}
