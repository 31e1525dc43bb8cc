//! The charge for fields of one message that are not whole yet, or that wait for their reader.

use super::{Charge, Memory, Overdrawn, Owner, Purpose, USUAL_HEAD};
use crate::peer::PeerAddress;

/// The unprocessed fields of one message, charged to their source. [`USUAL_HEAD`] of them cost
/// nothing: most heads are smaller, and touch no account.
#[derive(Debug, Default)]
pub struct FieldsCharge(Option<Charge>);

impl FieldsCharge {
    /// Charges the peer for all the bytes that wait by now.
    ///
    /// # Errors
    /// The peer has no room for them: it is charged for as many as before.
    pub fn hold(&mut self, peer: &PeerAddress, bytes: usize) -> Result<(), Overdrawn> {
        self.hold_within(Memory::node(), peer, bytes)
    }

    fn hold_within(
        &mut self,
        memory: &'static Memory,
        peer: &PeerAddress,
        bytes: usize,
    ) -> Result<(), Overdrawn> {
        if bytes <= USUAL_HEAD {
            self.0 = None;
            return Ok(());
        }

        let charge = self.0.get_or_insert_with(|| {
            let owner = memory.owner(Owner::of(None, peer));
            owner.empty_charge(Purpose::Heads)
        });
        if bytes > charge.bytes() {
            charge.grow(bytes - charge.bytes())
        } else {
            charge.shrink(charge.bytes() - bytes);
            Ok(())
        }
    }

    /// Ends the charge: the bytes have left.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::CONNECTION;

    const HEAD: usize = 60 << 10;

    #[test]
    fn what_comes_in_small_pieces_is_refused_as_what_comes_at_once() {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(4 << 20, CONNECTION)));
        let peer = PeerAddress::Ip("192.0.2.1:1".parse().unwrap());
        let fill = || {
            let mut one = FieldsCharge::default();
            one.hold_within(memory, &peer, HEAD).is_ok().then_some(one)
        };
        let filled: Vec<FieldsCharge> = std::iter::from_fn(fill).collect();
        assert!((10..20).contains(&filled.len()), "{}", filled.len());

        let mut slow = FieldsCharge::default();
        let mut bytes = 0;
        while bytes < HEAD && slow.hold_within(memory, &peer, bytes + 1000).is_ok() {
            bytes += 1000;
        }
        assert!((USUAL_HEAD..HEAD).contains(&(bytes + 1000)), "{bytes}");

        drop(filled);
        assert!(slow.hold_within(memory, &peer, HEAD).is_ok());
        assert_eq!(memory.charged(), HEAD);
        assert!(slow.hold_within(memory, &peer, 10_000).is_ok());
        assert_eq!(memory.charged(), 10_000);
        assert!(slow.hold_within(memory, &peer, USUAL_HEAD).is_ok());
        assert_eq!(memory.charged(), 0);
    }
}
