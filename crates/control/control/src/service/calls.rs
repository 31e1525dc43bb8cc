//! How often those who have a connection may call a controller by it: calls are judged, and who breaks one off pays nothing for that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_api::Name;
use tokio::sync::Notify;

use crate::rates::Rates;

/// Calls at once of one member, or of the connection of a stranger. A member calls once for its stream, and every few days to renew.
#[doc(alias = "bound")]
const CALLS: u32 = 32;

/// The time after which such a party may call again.
#[doc(alias = "bound")]
const NEXT_CALL: Duration = Duration::from_secs(2);

/// Whose calls count together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// All connections of a member.
    Member(Name),
    /// One connection.
    Stranger(SocketAddr),
    /// Other controllers, which pass on the requests of operators: they call as often as they like.
    Controller,
}

/// The calls of all parties.
pub(super) type CallRates = Rates<Party>;

/// No party has called yet.
pub(super) fn call_rates() -> CallRates {
    Rates::new(CALLS, NEXT_CALL)
}

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls {
    party: Party,
    rates: Arc<CallRates>,
    exceeded: Notify,
}

impl Calls {
    /// Those of a connection of this party.
    pub(super) fn new(party: Party, rates: Arc<CallRates>) -> Self {
        Self {
            party,
            rates,
            exceeded: Notify::new(),
        }
    }

    /// Whether one more call is answered; times are since any moment, the same for all.
    pub(super) fn take(&self, now: Duration) -> bool {
        let may_call = self.party == Party::Controller || self.rates.take(self.party.clone(), now);
        if !may_call {
            self.exceeded.notify_one();
        }
        may_call
    }

    /// Until a call was not answered: then its connection ends.
    pub(super) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_connections_of_a_member_have_its_calls_together_and_end_with_them() {
        let rates = Arc::new(call_rates());
        let member = |name: &str| Party::Member(name.parse().unwrap());
        let of = |party| Calls::new(party, rates.clone());
        let now = Duration::from_secs(100);
        let connections = [of(member("yard")), of(member("yard"))];
        let answered = (0..100).filter(|number| connections[number % 2].take(now));
        assert_eq!(answered.count(), 32);
        connections[0].exceeded().await;
        assert!(of(member("hub")).take(now));
        assert!(connections[0].take(now + 2 * NEXT_CALL));

        let controller = of(Party::Controller);
        assert!((0..1000).all(|_| controller.take(now)));
    }
}
