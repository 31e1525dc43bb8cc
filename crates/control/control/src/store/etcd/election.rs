//! The election of a leader among the controllers of an overlay.
//!
//! Each controller has a lease, which it keeps by a beat a second. On it hang the key by which others see it, and the key of the leader,
//! if that is its own: both are gone [`LEASE`] seconds after a controller has died. Who creates the leader's key leads; the revision of
//! that is its *term*, and the fence of all that it writes as the leader, since a leader that was stopped for a while may not know yet
//! that another one follows it. It counts the time of its lease from before the question, and gives up by its own clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Shared;
use super::keys::after;
use super::messages::{
    Compare, KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseRequest, LeaseRevokeResponse,
    PutRequest, RangeRequest, Request, RequestOp, Response, TxnRequest, TxnResponse,
    WatchCreateRequest, methods,
};
use crate::store::StoreError;
use crate::store::leadership::{Leadership, Presence, Role};

/// Seconds of a lease.
#[doc(alias = "bound")]
const LEASE: i64 = 5;

/// How often a lease is kept and the leader looked at.
const BEAT: Duration = Duration::from_secs(1);

/// The pause before a watch that has ended begins anew.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a controller that ends takes to say so.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(2);

/// Controllers that nodes are told of.
#[doc(alias = "bound")]
const CONTROLLERS: usize = 16;

/// A controller in the election.
pub(super) struct Election {
    shared: Arc<Shared>,
    own: Presence,
    lease: Option<HeldLease>,
    role: watch::Sender<Role>,
    controllers: watch::Sender<Vec<String>>,
    news: watch::Sender<u64>,
    /// The revision of the head that was seen last.
    head: i64,
}

/// A lease.
struct HeldLease {
    id: i64,
    until: Instant,
}

/// The keys that an election looks at.
struct Seen {
    leader: Option<KeyValue>,
    head: i64,
    controllers: Vec<KeyValue>,
}

impl Election {
    pub(super) fn new(shared: Arc<Shared>, url: &str) -> Self {
        Self {
            shared,
            own: Presence {
                id: format!("{:016x}", fastrand::u64(..)),
                url: url.to_owned(),
            },
            lease: None,
            role: watch::Sender::new(Role::Follows(None)),
            controllers: watch::Sender::default(),
            news: watch::Sender::new(0),
            head: 0,
        }
    }

    pub(super) fn leadership(&self) -> Leadership {
        Leadership {
            role: self.role.subscribe(),
            news: self.news.subscribe(),
            controllers: self.controllers.subscribe(),
            is_alone: false,
        }
    }

    /// A sender by which a watch tells of news.
    pub(super) fn news(&self) -> watch::Sender<u64> {
        self.news.clone()
    }

    /// Takes part until it is told to end.
    pub(super) async fn run(mut self, mut ends: watch::Receiver<bool>) {
        let mut news = self.news.subscribe();
        while !*ends.borrow_and_update() {
            self.beat_in_time().await;
            tokio::select! {
                () = sleep(BEAT) => {}
                _ = news.changed() => {}
                _ = ends.changed() => {}
            }
        }
        self.follow(None);
        if let Some(lease) = self.lease.take() {
            let request = LeaseRequest { id: lease.id };
            let revoked = self
                .shared
                .client
                .ask::<_, LeaseRevokeResponse>(methods::LEASE_REVOKE, request);
            // If it is not heard, the lease ends by itself.
            let _ = timeout(FAREWELL, revoked).await;
        }
    }

    /// One beat, given up when the lease ends meanwhile.
    async fn beat_in_time(&mut self) {
        let until = self.lease.as_ref().map(|lease| lease.until);
        let beaten = match until {
            Some(until) => timeout_at(until, self.beat()).await,
            None => Ok(self.beat().await),
        };
        let is_over = |lease: &HeldLease| lease.until <= Instant::now();
        match beaten {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the controllers' leader is unknown: {error}"),
            Err(_) => tracing::warn!("etcd has not answered for {LEASE} s"),
        }
        if self.lease.as_ref().is_some_and(is_over) {
            self.lease = None;
            self.follow(None);
        }
    }

    async fn beat(&mut self) -> Result<(), StoreError> {
        self.keep_lease().await?;
        let Some(lease) = self.lease.as_ref().map(|lease| lease.id) else {
            return Ok(());
        };
        let mut seen = self.look().await?;
        // Reading alone costs etcd no write, and most beats find all as it should be.
        let is_here = seen.controllers.iter().any(|one| one.lease == lease);
        if seen.leader.is_none() || !is_here {
            seen = self.take(lease).await?;
        }
        let urls = seen.controllers.iter().filter_map(presence);
        let urls = urls.map(|presence| presence.url).take(CONTROLLERS);
        let urls: Vec<_> = urls.collect();
        self.controllers.send_if_modified(|known| {
            let differs = *known != urls;
            *known = urls;
            differs
        });
        match &seen.leader {
            // Its lease is this one: no one else's has its identifier.
            Some(leader) if leader.lease == lease => self.lead(leader.create_revision),
            leader => self.follow(leader.as_ref().and_then(presence)),
        }
        // A watch may miss it, where its server is cut off from the others.
        if seen.head != self.head {
            self.head = seen.head;
            self.news.send_modify(|news| *news += 1);
        }
        Ok(())
    }

    async fn keep_lease(&mut self) -> Result<(), StoreError> {
        let asked = Instant::now();
        if let Some(lease) = &mut self.lease {
            let kept = self.shared.client.keep_alive(lease.id).await;
            let seconds = kept.map_err(StoreError::new)?;
            if seconds > 0 {
                lease.until = asked + Duration::from_secs(seconds.unsigned_abs());
                return Ok(());
            }
            // It has ended at etcd, such as after a pause of this process.
            self.lease = None;
            self.follow(None);
        }
        let asked = Instant::now();
        let request = LeaseGrantRequest { ttl: LEASE };
        let granted: LeaseGrantResponse = self
            .shared
            .client
            .ask(methods::LEASE_GRANT, request)
            .await?;
        self.lease = Some(HeldLease {
            id: granted.id,
            until: asked + Duration::from_secs(granted.ttl.unsigned_abs()),
        });
        Ok(())
    }

    /// Says that this controller is here, and takes the lead if no one has it.
    async fn take(&self, lease: i64) -> Result<Seen, StoreError> {
        let keys = &self.shared.keys;
        let value = serde_json::to_vec(&self.own).unwrap_or_default();
        let put = |key: Vec<u8>| -> RequestOp {
            Request::Put(PutRequest {
                key,
                value: value.clone(),
                lease,
            })
            .into()
        };
        let here = put(keys.controller(&self.own.id));
        let request = TxnRequest {
            compare: vec![Compare::created_at(&keys.leader(), 0)],
            success: [vec![put(keys.leader()), here.clone()], self.looks()].concat(),
            failure: [vec![here], self.looks()].concat(),
        };
        Ok(seen(self.shared.client.txn(request).await?))
    }

    async fn look(&self) -> Result<Seen, StoreError> {
        let request = TxnRequest {
            success: self.looks(),
            ..TxnRequest::default()
        };
        Ok(seen(self.shared.client.txn(request).await?))
    }

    /// Reads the keys that the election looks at.
    fn looks(&self) -> Vec<RequestOp> {
        let keys = &self.shared.keys;
        let range = |key: Vec<u8>, range_end: Vec<u8>| -> RequestOp {
            Request::Range(RangeRequest {
                key,
                range_end,
                ..RangeRequest::default()
            })
            .into()
        };
        vec![
            range(keys.leader(), Vec::new()),
            range(keys.record("head"), Vec::new()),
            range(keys.controllers(), after(&keys.controllers())),
        ]
    }

    fn lead(&self, term: i64) {
        *self.shared.term.lock() = Some(term);
        if self
            .role
            .send_if_modified(|role| replace(role, Role::Leads))
        {
            tracing::info!("this controller leads");
        }
    }

    fn follow(&self, leader: Option<Presence>) {
        *self.shared.term.lock() = None;
        let shown = leader.clone();
        let changed = self
            .role
            .send_if_modified(|role| replace(role, Role::Follows(leader)));
        match shown {
            Some(leader) if changed => tracing::info!("the controller at {} leads", leader.url),
            None if changed => tracing::warn!("no controller leads"),
            _ => {}
        }
    }
}

fn replace(role: &mut Role, new: Role) -> bool {
    let differs = *role != new;
    *role = new;
    differs
}

fn presence(found: &KeyValue) -> Option<Presence> {
    serde_json::from_slice(&found.value).ok()
}

fn seen(answer: TxnResponse) -> Seen {
    let mut ranges = answer
        .responses
        .into_iter()
        .filter_map(|one| match one.response {
            Some(Response::Range(range)) => Some(range.kvs),
            _ => None,
        });
    let mut next = || ranges.next().unwrap_or_default();
    Seen {
        leader: next().into_iter().next(),
        head: next().first().map_or(0, |head| head.mod_revision),
        controllers: next(),
    }
}

/// Watches the head and the controllers. After each failure something may have been missed, so that counts as news.
pub(super) async fn watch_keys(
    shared: Arc<Shared>,
    news: watch::Sender<u64>,
    mut ends: watch::Receiver<bool>,
) {
    let watching = async {
        loop {
            let failed = watched(&shared, &news).await;
            tracing::debug!("a watch at etcd has ended: {failed}");
            news.send_modify(|news| *news += 1);
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = watching => {}
        _ = ends.wait_for(|ends| *ends) => {}
    }
}

/// Watches until it fails; returns the reason.
async fn watched(shared: &Shared, news: &watch::Sender<u64>) -> String {
    let create = [
        WatchCreateRequest {
            key: shared.keys.record("head"),
            range_end: Vec::new(),
        },
        WatchCreateRequest {
            key: shared.keys.leader(),
            range_end: Vec::new(),
        },
    ];
    let mut watching = match shared.client.watch(create.to_vec()).await {
        Ok(watching) => watching,
        Err(reason) => return reason,
    };
    // Between the last look and the watch.
    news.send_modify(|news| *news += 1);
    loop {
        if let Err(reason) = watching.news().await {
            return reason;
        }
        news.send_modify(|news| *news += 1);
    }
}
