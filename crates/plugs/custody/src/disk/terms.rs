//! The terms of an exchange: the first record of its file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, BytesMut};

use hermes_noise::PublicKey;

/// The form of the files. Those of another form are not read.
const VERSION: u8 = 1;

/// An exchange, with the key of its neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeptName {
    /// The key of the neighbour.
    pub neighbour: PublicKey,
    /// Its name between the two.
    pub exchange: [u8; 16],
}

/// The terms of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptTerms {
    /// Which.
    pub name: KeptName,
    /// The exchange that this node answers by this one; `None` if this one is answered.
    pub parent: Option<KeptName>,
    /// It may be acted on once only.
    pub once: bool,
    /// When it is given up. Clocks that are set forward end it early, and not before they have done so.
    pub until: SystemTime,
}

impl KeptTerms {
    pub(super) fn encode(&self) -> BytesMut {
        let mut output = BytesMut::new();
        output.put_u8(VERSION);
        output.put_u8(self.once.into());
        let until = self.until.duration_since(UNIX_EPOCH);
        let until = until.unwrap_or_default().as_millis();
        output.put_u64(u64::try_from(until).unwrap_or(u64::MAX));
        for name in std::iter::once(&self.name).chain(&self.parent) {
            output.put_slice(&name.neighbour.0);
            output.put_slice(&name.exchange);
        }
        output
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.try_get_u8().ok()? != VERSION {
            return None;
        }
        let once = bytes.try_get_u8().ok()? != 0;
        let until = Duration::from_millis(bytes.try_get_u64().ok()?);
        let name = name(&mut bytes)?;
        let parent = match bytes.is_empty() {
            true => None,
            false => Some(self::name(&mut bytes)?),
        };
        Some(Self {
            name,
            parent,
            once,
            until: UNIX_EPOCH.checked_add(until)?,
        })
    }
}

fn name(bytes: &mut &[u8]) -> Option<KeptName> {
    let mut name = KeptName {
        neighbour: PublicKey([0; 32]),
        exchange: [0; 16],
    };
    bytes.try_copy_to_slice(&mut name.neighbour.0).ok()?;
    bytes.try_copy_to_slice(&mut name.exchange).ok()?;
    Some(name)
}
