//! The memory of a connection beside the content that waits to be sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::{Account, AccountedTransport, Flow, Pressure};
use hermes_net::quic::{Connection, WeakConnection};

use super::queue::Total;

/// QUIC, and the queues of datagrams.
struct Load {
    connection: WeakConnection,
    datagrams: Total,
    link: bool,
}

/// The account of a connection; a `link` carries exchanges of many.
pub(crate) fn account(connection: &Connection, datagrams: &Total, link: bool) -> Arc<Account> {
    let account = Account::open(connection.info());
    account.carried_by(Load {
        connection: connection.downgrade(),
        datagrams: datagrams.clone(),
        link,
    });
    account
}

impl AccountedTransport for Load {
    fn look(&self, pressure: Pressure) -> Flow {
        let Some(connection) = self.connection.upgrade() else {
            return Flow::default();
        };
        let flow = connection.look(self.link, pressure);
        Flow {
            kept: flow.kept + self.datagrams.load(Ordering::Relaxed),
            ..flow
        }
    }
}
