//! Why an exchange was refused, for the administrator.

use hermes_admit::refusals::account::Account;

use super::recount;
use crate::process::Node;

impl Node {
    /// The account of a refusal, or of the exchange that was refused; `None` if it is not remembered.
    pub(crate) fn why(&self, asked: &str) -> Option<Account> {
        let remembered = self.shared.refusals.find(asked)?;
        let snapshot = self.shared.snapshot.load_full();
        let places = self.written_places();
        let steps = recount::steps(&remembered, &snapshot);
        // By another configuration, the same path may mean something else.
        let places = places.and_then(|places| match remembered.revision {
            revision if revision == snapshot.revision => Ok(places),
            revision => Err(format!(
                "revision {revision} decided, and {} is in force",
                snapshot.revision
            )),
        });
        Some(remembered.account(&snapshot, steps, &places))
    }
}
