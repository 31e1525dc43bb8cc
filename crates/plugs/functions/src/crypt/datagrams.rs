//! Encrypted datagrams.
//!
//! ```text
//! SALT, NUMBER (64 bits), sealed payload and tag
//! ```
//!
//! A sender changes its salt, and so its key, every few seconds; the receiver takes each salt once and in its time, and each number once.
//! Nothing waits for an answer, so that lost datagrams cost only themselves.

use ::bytes::{BufMut, BytesMut};
use hermes_plug::{AlterDatagram, DatagramFate};

use super::now;
use super::seal::{SALT, Salt, Sealer, TAG, TunnelKeys};

/// Seconds after which a sender changes its key: one who begins to listen later, after a reload, understands it after so long.
#[doc(alias = "bound")]
const SPAN: u64 = 10;

/// The head of a datagram.
const HEAD: usize = SALT + 8;

/// How far behind the newest a datagram may come.
const WINDOW: u64 = 64;

/// Seals the datagrams of a direction.
pub struct SealedDatagrams {
    keys: TunnelKeys,
    direction: &'static str,
    span: Option<SendingSpan>,
}

struct SendingSpan {
    salt: Salt,
    began: u64,
    sealer: Sealer,
    number: u64,
}

impl SealedDatagrams {
    pub fn new(keys: TunnelKeys, direction: &'static str) -> Self {
        Self {
            keys,
            direction,
            span: None,
        }
    }

    fn seal(&mut self, datagram: &[u8], output: &mut BytesMut, now: u64) -> Option<()> {
        // A clock that was set back begins a new span, too: the receiver would take no old one.
        self.span = self
            .span
            .take()
            .filter(|span| now.saturating_sub(span.began) < SPAN && now >= span.began);
        if self.span.is_none() {
            let salt = Salt::new(now)?;
            self.keys.take(&salt, now).ok()?;
            self.span = Some(SendingSpan {
                salt,
                began: now,
                sealer: self.keys.sealer(&salt.0, self.direction)?,
                number: 0,
            });
        }
        let span = self.span.as_mut()?;
        let number = span.number.to_be_bytes();
        output.put_slice(&span.salt.0);
        output.put_slice(&number);
        output.put_slice(datagram);
        let sealed = span.sealer.seal(span.number, &number, output, HEAD);
        span.number += 1;
        sealed.ok()
    }
}

impl AlterDatagram for SealedDatagrams {
    fn alter(&mut self, datagram: &[u8], output: &mut BytesMut) -> Result<DatagramFate, String> {
        Ok(match self.seal(datagram, output, now()) {
            Some(()) => DatagramFate::Changed,
            None => DatagramFate::Dropped,
        })
    }
}

/// Opens the datagrams of a direction; drops all others.
pub struct OpenedDatagrams {
    keys: TunnelKeys,
    direction: &'static str,
    /// The newest.
    current: Option<ReceivingSpan>,
    /// The one before it, some of whose datagrams are late.
    previous: Option<ReceivingSpan>,
}

struct ReceivingSpan {
    salt: Salt,
    sealer: Sealer,
    /// The number after the newest.
    next: u64,
    /// Whether each of those before it has come, the newest in the lowest bit.
    came: u64,
}

impl ReceivingSpan {
    /// Opens a datagram that is genuine and was not here before.
    fn open(&mut self, number: u64, sealed: &mut [u8], output: &mut BytesMut) -> Option<()> {
        if self.has(number) {
            return None;
        }
        let opened = self.sealer.open(number, &number.to_be_bytes(), sealed)?;
        output.put_slice(opened);
        self.note(number);
        Some(())
    }

    /// Whether one came before, or may have.
    fn has(&self, number: u64) -> bool {
        let Some(behind) = self.next.checked_sub(1 + number) else {
            return number == u64::MAX;
        };
        behind >= WINDOW || self.came & (1 << behind) != 0
    }

    fn note(&mut self, number: u64) {
        if number < self.next {
            self.came |= 1 << (self.next - 1 - number);
            return;
        }
        let steps = number + 1 - self.next;
        let shifted = if steps >= WINDOW {
            0
        } else {
            self.came << steps
        };
        self.came = shifted | 1;
        self.next = number + 1;
    }
}

impl OpenedDatagrams {
    pub fn new(keys: TunnelKeys, direction: &'static str) -> Self {
        Self {
            keys,
            direction,
            current: None,
            previous: None,
        }
    }

    fn open(&mut self, datagram: &[u8], output: &mut BytesMut, now: u64) -> Option<()> {
        let salt = Salt(*datagram.first_chunk::<SALT>()?);
        let rest = &datagram[SALT..];
        let number = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        let mut sealed = rest[8..].to_vec();
        if sealed.len() < TAG {
            return None;
        }

        // The newest first: late ones are few.
        for span in [&mut self.current, &mut self.previous]
            .into_iter()
            .flatten()
        {
            if span.salt == salt {
                return span.open(number, &mut sealed, output);
            }
        }
        let mut span = ReceivingSpan {
            salt,
            sealer: self.keys.sealer(&salt.0, self.direction)?,
            next: 0,
            came: 0,
        };
        span.open(number, &mut sealed, output)?;
        // Only now it is known to be genuine: a stranger moves no one else's keys away.
        if self.keys.take(&salt, now).is_err() {
            output.clear();
            return None;
        }
        self.previous = self.current.replace(span);
        Some(())
    }
}

impl AlterDatagram for OpenedDatagrams {
    fn alter(&mut self, datagram: &[u8], output: &mut BytesMut) -> Result<DatagramFate, String> {
        Ok(match self.open(datagram, output, now()) {
            Some(()) => DatagramFate::Changed,
            None => DatagramFate::Dropped,
        })
    }
}
