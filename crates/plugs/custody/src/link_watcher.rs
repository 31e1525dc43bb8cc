//! Links that come up end silences early: neighbours that were out of reach may be in reach now.

use std::io;
use std::time::Duration;

use hermes_net::LinkChanges;
use tokio::time::{Instant, sleep_until};

/// Shortest time between two words of links: a router has many, which come and go.
#[doc(alias = "bound")]
const SHORTEST: Duration = Duration::from_millis(20);

/// After which time neighbours are asked once more: routes follow addresses, and neighbours of the link have to be found.
const AGAIN: Duration = Duration::from_millis(200);

/// Hears of links, where the system tells.
pub(crate) struct LinkWatcher {
    links: Option<LinkChanges>,
    last: Option<Instant>,
    again: Option<Instant>,
}

impl LinkWatcher {
    /// From now on.
    pub(crate) fn new() -> Self {
        let links = LinkChanges::hear().inspect_err(|error| {
            tracing::info!(%error, "links that come up are noticed by the next question, not at once");
        });
        Self {
            links: links.ok(),
            last: None,
            again: None,
        }
    }

    /// Resolves when neighbours may be in reach that were not. Dropping the future loses nothing.
    pub(crate) async fn due(&mut self) {
        loop {
            let again = self.again.unwrap_or_else(Instant::now);
            tokio::select! {
                changed = next(&mut self.links) => match changed {
                    Ok(()) => {
                        if self.note(Instant::now()) {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "changes of network links are not reported any more");
                        self.links = None;
                    }
                },
                () = sleep_until(again), if self.again.is_some() => {
                    self.again = None;
                    return;
                }
            }
        }
    }

    /// Notes a word; says whether it counts at once.
    fn note(&mut self, now: Instant) -> bool {
        self.again = Some(now + AGAIN);
        let is_due = self.last.is_none_or(|last| now >= last + SHORTEST);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

async fn next(links: &mut Option<LinkChanges>) -> io::Result<()> {
    match links {
        Some(links) => links.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_words_count_as_few_and_the_last_is_not_forgotten() {
        let mut watcher = LinkWatcher {
            links: None,
            last: None,
            again: None,
        };
        let began = Instant::now();
        let words = (0..100).map(Duration::from_millis);
        let counted = words.filter(|after| watcher.note(began + *after)).count();
        assert_eq!(counted, 5);
        assert_eq!(
            watcher.again,
            Some(began + Duration::from_millis(99) + AGAIN)
        );
    }
}
