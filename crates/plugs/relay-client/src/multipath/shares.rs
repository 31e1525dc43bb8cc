//! The shares of a channel that come by one way each.

use hermes_proto::relay::Stripe;

/// The share of each way.
#[derive(Debug)]
pub(super) struct Shares(Vec<Share>);

/// One share.
#[derive(Debug)]
struct Share {
    stripe: Stripe,
    /// Whether its way has been open.
    is_open: bool,
    is_away: bool,
    is_over: bool,
    /// The number of the last message that came: those before it come no more.
    latest: u64,
}

impl Shares {
    /// Those of these ways, in their order.
    pub(super) fn new(stripes: &[Stripe]) -> Self {
        let shares = stripes.iter().map(|stripe| Share {
            stripe: *stripe,
            is_open: false,
            is_away: false,
            is_over: false,
            latest: 0,
        });
        Self(shares.collect())
    }

    /// The way is open; whether all are, or have been.
    pub(super) fn open(&mut self, way: usize) -> bool {
        self.0[way].is_open = true;
        self.0[way].is_away = false;
        self.0.iter().all(|share| share.is_open || share.is_over)
    }

    /// The way broke off: its messages wait at the relay.
    pub(super) fn away(&mut self, way: usize) {
        self.0[way].is_away = true;
    }

    /// The way is over: none of its messages comes any more. Whether all others are, or have been, open.
    pub(super) fn over(&mut self, way: usize) -> bool {
        self.0[way].is_over = true;
        self.0.iter().all(|share| share.is_open || share.is_over)
    }

    /// A message came by the way.
    pub(super) fn heard(&mut self, way: usize, sequence: u64) {
        let latest = &mut self.0[way].latest;
        *latest = sequence.max(*latest);
    }

    /// The numbers begin anew.
    pub(super) fn restart(&mut self) {
        for share in &mut self.0 {
            share.latest = 0;
        }
    }

    /// Whether a message that is missing waits at the relay for its way to come again.
    pub(super) fn is_held(&self, sequence: u64) -> bool {
        let mut shares = self.0.iter();
        shares.any(|share| share.stripe.has(sequence) && share.is_away && !share.is_over)
    }

    /// Whether a message that is missing can come no more, since a later one did.
    pub(super) fn is_passed(&self, sequence: u64) -> bool {
        let is_last = self.0.iter().all(|share| share.latest <= sequence);
        let mut shares = self.0.iter().filter(|share| share.stripe.has(sequence));
        shares.any(|share| share.latest > sequence || (share.is_over && !is_last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_lost_once_its_own_way_has_brought_a_later_one() {
        let stripes = ["1/2", "2/2"].map(|share| share.parse().unwrap());
        let mut shares = Shares::new(&stripes);
        assert!(!shares.open(0));
        assert!(shares.open(1));
        shares.heard(0, 5);
        assert!(shares.is_passed(3) && !shares.is_passed(4));
        shares.away(1);
        assert!(shares.is_held(4) && !shares.is_held(3));
        shares.heard(1, 6);
        assert!(shares.is_passed(4) && !shares.is_passed(6));
        shares.over(1);
        assert!(!shares.is_held(8) && !shares.is_passed(8));
        shares.heard(0, 9);
        assert!(shares.is_passed(8));
        shares.restart();
        assert!(!shares.is_passed(1));
    }
}
