//! Lookups that are under way: all who ask for the same name wait for the same answer.

use std::collections::HashMap;
use std::sync::Arc;

use hickory_resolver::proto::rr::Name;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::answer::{DnsError, Lookup};

type Answer = Result<Lookup, DnsError>;
type Answers = watch::Receiver<Option<Answer>>;

/// The names that are asked for now. Only lookups that have a turn are here, so their number is bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct SingleFlights {
    running: Arc<Mutex<HashMap<Name, Answers>>>,
}

/// A lookup that is under way. Dropped without an answer, it lets the waiting tasks ask themselves.
pub(super) struct SingleFlight {
    of: SingleFlights,
    name: Name,
    tell: watch::Sender<Option<Answer>>,
}

impl SingleFlights {
    /// The answer of a lookup of this name that is under way; `None` if there is no such lookup, or
    /// it was given up.
    pub(super) async fn join(&self, name: &Name) -> Option<Answer> {
        let mut answers = self.running.lock().get(name).cloned()?;
        let answer = answers.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }

    /// Begins a lookup; `None` when one is under way.
    pub(super) fn begin(&self, name: &Name) -> Option<SingleFlight> {
        let mut running = self.running.lock();
        if running.contains_key(name) {
            return None;
        }

        let (tell, answers) = watch::channel(None);
        running.insert(name.clone(), answers);
        Some(SingleFlight {
            of: self.clone(),
            name: name.clone(),
            tell,
        })
    }
}

impl SingleFlight {
    /// Tells the answer to all who wait.
    pub(super) fn answer(self, answer: &Answer) {
        // There may be no one waiting.
        let _ = self.tell.send(Some(answer.clone()));
    }
}

impl Drop for SingleFlight {
    fn drop(&mut self) {
        self.of.running.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::answer::DnsErrorKind;

    #[tokio::test]
    async fn all_who_ask_share_an_answer_and_go_on_where_the_first_gives_up() {
        let (single_flights, name) = (
            SingleFlights::default(),
            Name::from_ascii("a.example.").unwrap(),
        );
        assert!(single_flights.join(&name).await.is_none());
        let single_flight = single_flights.begin(&name).unwrap();
        assert!(single_flights.begin(&name).is_none());
        let answer = Err(DnsError::new(DnsErrorKind::NotFound, "a.example"));
        let (joined, ()) = tokio::join!(single_flights.join(&name), async {
            single_flight.answer(&answer)
        });
        assert_eq!(joined, Some(answer));

        let single_flight = single_flights.begin(&name).unwrap();
        let (joined, ()) = tokio::join!(single_flights.join(&name), async { drop(single_flight) });
        assert_eq!(joined, None);
        assert!(single_flights.running.lock().is_empty());
    }
}
