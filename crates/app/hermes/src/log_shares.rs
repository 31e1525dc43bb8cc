//! Lines of the log about one user or source: one who causes lines without end leaves room for those about others.
//!
//! Every line that names a `user`, a `member` of an overlay or a `peer` counts, wherever it is written, so that no new line has to think of it. Lines about no one,
//! and those of `debug` and `trace`, which someone asked for, are never left out.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use hermes_net::PeerAddress;
use hermes_net::memory::Owner;
use hermes_observe::LineShares;
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Leaves out lines of one kind about someone that the log has enough of.
pub struct LogShares<T> {
    /// By the place in the program that writes them: there are some hundred.
    kinds: Mutex<HashMap<Identifier, LineShares>>,
    /// Hears how many lines were left out before one that is written.
    tell: T,
}

impl<T: Fn(u64)> LogShares<T> {
    /// Nothing was written yet.
    pub fn new(tell: T) -> Self {
        Self {
            kinds: Mutex::default(),
            tell,
        }
    }

    /// Whether one more line of this kind about `owner` is written.
    fn admits(&self, kind: Identifier, owner: Owner, now: Instant) -> bool {
        let left_out = self.kinds.lock().entry(kind).or_default().next(owner, now);
        let Some(left_out) = left_out else {
            return false;
        };

        if left_out > 0 {
            (self.tell)(left_out);
        }
        true
    }
}

impl<S: Subscriber, T: Fn(u64) + 'static> Layer<S> for LogShares<T> {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        let mut about = About::default();
        event.record(&mut about);
        match about.owner() {
            Some(owner) => self.admits(metadata.callsite(), owner, Instant::now()),
            None => true,
        }
    }
}

/// Whom a line is about.
#[derive(Default)]
struct About {
    user: Option<String>,
    peer: Option<String>,
}

impl About {
    fn owner(self) -> Option<Owner> {
        let user = self.user.filter(|user| !user.is_empty());
        if let Some(user) = user {
            return Some(Owner::User(user.into()));
        }

        let peer = self.peer?;
        let address = peer.parse::<SocketAddr>().ok();
        let ip = peer.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
        let address = address.or(ip.ok()).map(PeerAddress::Ip);
        Some(match address {
            Some(address) => Owner::of(None, &address),
            None => Owner::Local,
        })
    }

    fn room(&mut self, field: &Field) -> Option<&mut String> {
        let place = match field.name() {
            "user" | "member" => &mut self.user,
            "peer" => &mut self.peer,
            _ => return None,
        };
        Some(place.insert(String::new()))
    }
}

impl Visit for About {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(room) = self.room(field) {
            room.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(room) = self.room(field) {
            // Writing to memory does not fail.
            let _ = write!(room, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Counts the lines that are written.
    struct Written(Arc<AtomicU64>);

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn refused(user: Option<&str>, peer: &str) {
        tracing::info!(%peer, user, "refused");
    }

    #[test]
    fn one_who_causes_lines_without_end_leaves_room_for_those_about_others_and_is_counted() {
        let written = Arc::new(AtomicU64::new(0));
        let told = Arc::new(AtomicU64::new(0));
        let hears = told.clone();
        let shares = LogShares::new(move |lines| _ = hears.fetch_add(lines, Ordering::SeqCst));
        let registry = tracing_subscriber::registry()
            .with(shares)
            .with(Written(written.clone()));
        let count = |act: &dyn Fn()| {
            let before = written.load(Ordering::SeqCst);
            act();
            written.load(Ordering::SeqCst) - before
        };

        tracing::subscriber::with_default(registry, || {
            let flood = || (0..10_000).for_each(|_| refused(Some("mallory"), "192.0.2.1:1000"));
            let few = count(&flood);
            assert!((1..100).contains(&few), "{few}");
            assert_eq!(count(&|| refused(Some("alice"), "192.0.2.1:1000")), 1);
            assert_eq!(told.load(Ordering::SeqCst), 10_000 - few);

            // Strangers by their address, whatever the port.
            let flood = || (0..10_000).for_each(|at| refused(None, &format!("192.0.2.2:{at}")));
            let few = count(&flood);
            assert!((1..100).contains(&few), "{few}");
            assert_eq!(count(&|| refused(None, "192.0.2.3:1")), 1);
            assert_eq!(count(&|| refused(None, "unix:uid=0")), 1);

            // Members of an overlay, by their names.
            let one = |member: &str| tracing::warn!(member, "it attends anew");
            let few = count(&|| (0..10_000).for_each(|_| one("yard")));
            assert!((1..100).contains(&few), "{few}");
            assert_eq!(count(&|| one("hub")), 1);

            // Lines about no one are the operator's.
            let own = || (0..1000).for_each(|number| tracing::info!(number, "reloaded"));
            assert_eq!(count(&own), 1000);
        });
    }
}
