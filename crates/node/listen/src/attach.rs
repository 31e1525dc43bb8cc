//! `attach` listeners: exchanges come over connections that this node opened, and on which it is the server.
//!
//! Each attachment is kept: one that ends, or cannot be had, is followed by another attempt after a pause that grows.

use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_admit::joins::Join;
use hermes_admit::snapshot::Snapshot;
use hermes_net::{Drain, Watch};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::PROXY_AUTHORIZATION;
use hermes_rules::fields::USER;
use hermes_upstream::{Joined, NotJoined, Upstream};
use http::{HeaderValue, Version};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::http::attachment;
use super::wanted::attached_as;

/// The first pause after an attempt that failed; each is twice the one before, and a random part of its second half is left out,
/// so that nodes that lost the same proxy do not come back all at once.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause: how late a node may notice that its proxy is there again.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(30);

/// How long an attachment must last for the next pause to begin small again.
#[doc(alias = "bound")]
const GOOD: Duration = Duration::from_secs(10);

/// Keeps `count` attachments, each in a task of its own.
pub(super) fn serve(entrance: &Entrance, count: usize, watch: &Watch) {
    for _ in 0..count {
        let entrance = entrance.clone();
        let own = watch.clone();
        watch.spawn(async move { keep(entrance, &own).await });
    }
}

/// Keeps one attachment until told to stop.
async fn keep(mut entrance: Entrance, watch: &Watch) {
    let shared = entrance.worker.shared.clone();
    let mut revision = shared.snapshot.subscribe();
    let join = shared.attachments.joins.begin(&entrance.rules.name);
    let mut pause = PAUSE;
    let mut old = None::<Drain>;

    loop {
        entrance.renew();
        let Some(join_as) = JoinAs::of(&entrance) else {
            return;
        };

        join.leads(join_as.upstream.name(), &join_as.name);
        let joined = tokio::select! {
            joined = join_as.join(&entrance) => joined,
            () = watch.graceful() => return,
        };

        let began = Instant::now();
        match joined {
            Ok(joined) => {
                join.attached(&joined.endpoint);
                tracing::info!(listener = %entrance.rules.name, endpoint = joined.endpoint, name = join_as.name, "attached");

                // The other attachment is there before this one is left.
                old.take().inspect(Drain::start);
                let (serving, ended) = hold(&entrance, joined, watch);
                tokio::select! {
                    _ = ended => {}
                    () = join_as.is_left(&entrance, &mut revision) => {
                        (old, pause) = (Some(serving), PAUSE);
                        continue;
                    }
                }

                if watch.is_draining() {
                    return;
                }
                note(&join, &entrance, "the attachment ended");
            }
            Err(error) => note(&join, &entrance, &error.to_string()),
        }

        // An attachment that held for a while was no failed try: the pauses begin anew.
        if began.elapsed() >= GOOD {
            pause = PAUSE;
        }
        tokio::select! {
            () = tokio::time::sleep(jittered(pause)) => pause = (pause * 2).min(LONGEST),
            () = join_as.is_left(&entrance, &mut revision) => pause = PAUSE,
            () = watch.graceful() => return,
        }
    }
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

fn note(join: &Join<'_>, entrance: &Entrance, reason: &str) {
    if join.failed(reason) {
        tracing::warn!(listener = %entrance.rules.name, reason, "not attached");
    }
}

/// Serves an attachment in a task of its own, which can be drained alone; tells when it has ended.
fn hold(entrance: &Entrance, joined: Joined, watch: &Watch) -> (Drain, oneshot::Receiver<()>) {
    let serving = watch.child();
    let (done, ended) = oneshot::channel();
    let entrance = entrance.clone();
    let own = serving.watch();
    serving.watch().spawn(async move {
        let _counted = entrance.rules.telemetry.accepted();
        attachment(entrance, joined.stream, &own).await;
        tokio::select! {
            () = joined.rest.farewell() => {}
            () = own.forced() => {}
        }

        // Where the attachment was left for another, no one waits for this.
        let _ = done.send(());
    });

    (serving, ended)
}

/// Whose this node is.
fn user(snapshot: &Snapshot) -> Option<&str> {
    snapshot
        .document
        .identity
        .as_ref()
        .map(|identity| identity.user.as_str())
}

/// The upstream to attach to, and the name there.
struct JoinAs {
    upstream: Arc<Upstream>,
    name: String,
    snapshot: Arc<Snapshot>,
}

impl JoinAs {
    /// As the configuration in force says; `None` if the listener attaches no more.
    fn of(entrance: &Entrance) -> Option<Self> {
        let snapshot = entrance.worker.snapshot();
        let attach = entrance.rules.config.attach()?;
        let upstream = snapshot.upstreams.get(attach.upstream())?.clone();
        let name = attached_as(&snapshot.document, attach)?.to_owned();

        Some(Self {
            upstream,
            name,
            snapshot,
        })
    }

    /// Attaches.
    async fn join(&self, entrance: &Entrance) -> Result<Joined, NotJoined> {
        let mut fields = Fields::new();
        if let Some(user) = user(&self.snapshot).and_then(|user| HeaderValue::from_str(user).ok()) {
            fields.insert(USER, user);
        }

        if let Some(token) = self
            .snapshot
            .node
            .credentials
            .token
            .as_ref()
            .filter(|_| self.upstream.sends_token())
        {
            fields.insert(PROXY_AUTHORIZATION, token.clone());
        }

        self.snapshot.node.via.append(&mut fields, Version::HTTP_11);
        Box::pin(
            entrance
                .worker
                .client
                .attach(&self.upstream, &self.name, fields),
        )
        .await
    }

    /// Resolves when the configuration leads elsewhere. A listener that is gone is ended by the drain of its door.
    async fn is_left(&self, entrance: &Entrance, revision: &mut watch::Receiver<u64>) {
        loop {
            // The sender lives as long as the workers do.
            let _ = revision.changed().await;
            let now = entrance.worker.snapshot();
            let same = |upstream: &Arc<Upstream>| Arc::ptr_eq(upstream, &self.upstream);
            let other = now
                .upstreams
                .get(self.upstream.name())
                .is_some_and(|upstream| !same(upstream));

            // The attached user is named once, when the connection begins.
            if other || user(&now) != user(&self.snapshot) {
                return;
            }
        }
    }
}
