//! The addresses of an endpoint's host: all of them, refreshed by their lifetime, the last good ones kept.

use std::net::{SocketAddr, SocketAddrV6};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::{HostPort, zone_index};
use hermes_net::clock;
use hermes_net::peer::canonical;
use hermes_net::{Lookup, Resolver};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::FailureKind;
use crate::failure::ConnectFailure;

/// Shortest and longest time for which a DNS answer is used, regardless of its TTL.
#[doc(alias = "bound")]
const LIFETIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Pause before a failed lookup is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// The first lookup of a host.
type FirstLookup<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<[SocketAddr]>, ConnectFailure>> + Send + 'a>>;

/// The addresses of one host and port.
#[derive(Debug)]
pub(crate) struct Addresses {
    host: String,
    port: u16,
    known: Mutex<KnownAddresses>,
    /// One first lookup at a time; the others wait for it.
    asking: tokio::sync::Mutex<()>,
}

impl Addresses {
    pub(crate) fn new(place: &HostPort) -> Self {
        let literal = place
            .host
            .parse()
            .ok()
            .map(|ip| canonical(SocketAddr::new(ip, place.port)));
        let known = KnownAddresses {
            list: literal.map(|address| Arc::from([address])),
            until: None,
            failed: None,
            asked: false,
        };

        Self {
            host: place.host.clone(),
            port: place.port,
            known: Mutex::new(known),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// The known addresses, without a lookup.
    pub(crate) fn known(&self) -> Vec<SocketAddr> {
        self.known
            .lock()
            .list
            .as_ref()
            .map_or_else(Vec::new, |list| list.to_vec())
    }

    /// The addresses to use now. Looks them up and waits only for the first ones; old ones are
    /// refreshed by a task.
    pub(crate) async fn current(
        self: &Arc<Self>,
        resolver: &Arc<Resolver>,
        tasks: &TaskTracker,
    ) -> Result<Arc<[SocketAddr]>, ConnectFailure> {
        let look = self.known.lock().look(clock::now());
        match look {
            Look::Fresh(list) => Ok(list),
            // The old list serves meanwhile: no exchange waits for a refresh.
            Look::Stale(list) => {
                let this = self.clone();
                let resolver = resolver.clone();
                // Made before the task: one that is dropped before it runs lets the next refresh begin, too.
                let asked = Refresh(self.clone());
                tasks.spawn(async move {
                    this.ask(&resolver).await;
                    drop(asked);
                });

                Ok(list)
            }
            Look::Failed(failure) => Err(failure),
            Look::Missing => self.first(resolver).await,
        }
    }

    /// Boxed: an exchange rarely waits for it, and carries no room for it.
    #[inline(never)]
    fn first<'a>(&'a self, resolver: &'a Resolver) -> FirstLookup<'a> {
        Box::pin(self.wait_for_first(resolver))
    }

    async fn wait_for_first(
        &self,
        resolver: &Resolver,
    ) -> Result<Arc<[SocketAddr]>, ConnectFailure> {
        let _turn = self.asking.lock().await;
        let look = self.known.lock().look(clock::now());
        if matches!(look, Look::Missing) {
            self.ask(resolver).await;
        }

        let known = self.known.lock();
        match (&known.list, &known.failed) {
            (Some(list), _) => Ok(list.clone()),
            (None, Some((_, failure))) => Err(failure.clone()),
            (None, None) => Err(ConnectFailure::timeout(&self.host)),
        }
    }

    async fn ask(&self, resolver: &Resolver) {
        let place = format!("{}:{}", self.host, self.port);
        if let Some((address, zone)) = self.host.split_once('%') {
            self.find_interface(address, zone, &place);
            return;
        }

        let answer = resolver.lookup_endpoint(&self.host).await;
        let answer = answer.map_err(|error| ConnectFailure::dns(&place, &error));

        if let Err(failure) = &answer {
            tracing::warn!(
                host = self.host,
                reason = failure.reason,
                "an endpoint's name cannot be resolved"
            );
        }

        self.known.lock().learn(answer, self.port, Instant::now());
    }
}

/// How long the number of an interface is used: one that goes and comes back has another.
const INTERFACE: Duration = Duration::from_secs(5);

impl Addresses {
    /// The address on the link of an interface (RFC 4007), as that is now.
    fn find_interface(&self, address: &str, zone: &str, place: &str) {
        let found = address.parse().ok().zip(zone_index(zone));
        let mut known = self.known.lock();
        let now = Instant::now();
        match found {
            Some((address, index)) => {
                let address = SocketAddrV6::new(address, self.port, 0, index);
                known.list = Some(Arc::from([SocketAddr::V6(address)]));
                known.until = Some(now + INTERFACE);
                known.failed = None;
            }
            None => {
                let reason = format!("this machine has no interface `{zone}` now");
                let failure = ConnectFailure::new(FailureKind::Unreachable, place, reason);
                // An address on a link that is gone leads nowhere, so that an old one is of no use.
                known.list = None;
                known.until = Some(now + PAUSE);
                known.failed = Some((now, failure));
            }
        }
    }
}

/// A background refresh that is under way; dropped with its task, it lets the next one begin.
struct Refresh(Arc<Addresses>);

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.known.lock().asked = false;
    }
}

#[derive(Debug)]
struct KnownAddresses {
    list: Option<Arc<[SocketAddr]>>,
    /// When the list should be refreshed; `None`: never.
    until: Option<Instant>,
    failed: Option<(Instant, ConnectFailure)>,
    asked: bool,
}

#[derive(Debug, PartialEq)]
enum Look {
    Fresh(Arc<[SocketAddr]>),
    /// Usable, and to be refreshed by the caller; it is given out once for each refresh.
    Stale(Arc<[SocketAddr]>),
    Missing,
    Failed(ConnectFailure),
}

impl KnownAddresses {
    fn look(&mut self, now: Instant) -> Look {
        let old = self.until.is_some_and(|until| until <= now);
        match (&self.list, &self.failed) {
            (Some(list), _) if old && !self.asked => {
                self.asked = true;
                Look::Stale(list.clone())
            }
            (Some(list), _) => Look::Fresh(list.clone()),
            (None, Some((when, failure))) if now < *when + PAUSE => Look::Failed(failure.clone()),
            (None, _) => Look::Missing,
        }
    }

    fn learn(&mut self, answer: Result<Lookup, ConnectFailure>, port: u16, now: Instant) {
        match answer {
            Ok(lookup) => {
                let addresses = lookup
                    .addresses
                    .iter()
                    .map(|ip| canonical(SocketAddr::new(*ip, port)));
                self.list = Some(addresses.collect());
                self.until = Some(now + lookup.ttl.clamp(LIFETIME.0, LIFETIME.1));
                self.failed = None;
            }
            Err(failure) => {
                self.until = Some(now + PAUSE);
                self.failed = Some((now, failure));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown() -> KnownAddresses {
        KnownAddresses {
            list: None,
            until: None,
            failed: None,
            asked: false,
        }
    }

    fn lookup(ttl: u64) -> Result<Lookup, ConnectFailure> {
        Ok(Lookup {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ttl: Duration::from_secs(ttl),
        })
    }

    fn failure() -> ConnectFailure {
        ConnectFailure::new(FailureKind::Dns { timeout: false }, "x:1", "no such name")
    }

    #[test]
    fn old_addresses_are_given_out_while_one_refresh_runs() {
        let (mut known, now) = (unknown(), Instant::now());
        known.learn(lookup(10), 80, now);
        assert!(matches!(
            known.look(now + Duration::from_secs(9)),
            Look::Fresh(_)
        ));
        assert!(matches!(
            known.look(now + Duration::from_secs(10)),
            Look::Stale(_)
        ));
        assert!(matches!(
            known.look(now + Duration::from_secs(10)),
            Look::Fresh(_)
        ));
    }

    #[test]
    fn the_last_good_addresses_survive_a_failed_refresh() {
        let (mut known, now) = (unknown(), Instant::now());
        known.learn(lookup(10), 80, now);
        let later = now + Duration::from_secs(20);
        known.learn(Err(failure()), 80, later);
        assert!(matches!(known.look(later), Look::Fresh(_)));
        assert!(matches!(known.look(later + PAUSE), Look::Stale(_)));
    }

    #[test]
    fn lifetimes_are_bounded_below_and_above() {
        let (mut known, now) = (unknown(), Instant::now());
        known.learn(lookup(0), 80, now);
        assert_eq!(known.until, Some(now + LIFETIME.0));
        known.learn(lookup(86_400), 80, now);
        assert_eq!(known.until, Some(now + LIFETIME.1));
    }

    #[test]
    fn a_failure_is_remembered_for_a_moment() {
        let (mut known, now) = (unknown(), Instant::now());
        known.learn(Err(failure()), 80, now);
        assert_eq!(known.look(now), Look::Failed(failure()));
        assert_eq!(known.look(now + PAUSE), Look::Missing);
    }

    #[test]
    fn a_link_local_address_is_on_its_interface_as_long_as_that_is_there() {
        let addresses = Addresses::new(&HostPort {
            host: "fe80::1%lo".to_owned(),
            port: 80,
        });
        addresses.find_interface("fe80::1", "lo", "x");
        let [SocketAddr::V6(known)] = addresses.known()[..] else {
            panic!("{:?}", addresses.known());
        };
        assert_eq!(Some(known.scope_id()), zone_index("lo"));

        addresses.find_interface("fe80::1", "no-such-one", "x");
        assert!(addresses.known().is_empty());
        assert!(matches!(
            addresses.known.lock().look(Instant::now()),
            Look::Failed(_)
        ));
    }

    #[test]
    fn literals_need_no_lookup() {
        let addresses = Addresses::new(&"[::1]:80".parse().unwrap());
        assert_eq!(addresses.known(), ["[::1]:80".parse().unwrap()]);
    }
}
