//! The rate limit: bytes in a second of each user, or of all together.
//!
//! Of a tunnel of bytes the sender is held back, so that nothing is lost or kept here; datagrams beyond the rate are dropped, as a full link
//! would drop them.

mod buckets;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_config::Problem;
use hermes_config::model::ByteSize;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Alter, AlterDatagram, Altering, AlteringDatagrams, Beginning, BeginningDatagrams, DatagramFate,
    Malformed, PIECE, Payload, Settings, Transform, TunnelSubject,
};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::passing::pass;
use buckets::{Bucket, BucketOwner, Buckets, Pace};

/// The least rate: at a lower one a piece would wait longer than idle tunnels live.
#[doc(alias = "bound")]
const LEAST_RATE: u64 = 1024;

/// The settings of `limit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitSettings {
    /// Bytes in a second, in each direction.
    per_second: ByteSize,
    /// Bytes that pass at once after a pause. Default: a tenth of `per_second`, at least 16KiB.
    #[serde(default)]
    burst: Option<ByteSize>,
    /// Who shares the rate. Default: `user`.
    #[serde(default)]
    shared_by: SharedBy,
}

/// Who shares a rate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SharedBy {
    /// The tunnels of one user; those without a user of one source address.
    #[default]
    User,
    /// All tunnels.
    All,
}

/// Bounds bytes in a second. Named alone, without a rate, it lets no tunnel begin.
#[derive(Default)]
pub struct Limit(Option<Arc<Limited>>);

/// A rate, and the buckets of those who share it.
struct Limited {
    shared_by: SharedBy,
    buckets: Buckets,
}

impl Limit {
    fn make(settings: LimitSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        let rate = settings.per_second.0;
        if rate < LEAST_RATE {
            let problem = Problem::new("per_second", "so slow a tunnel would look dead");
            return Err(vec![problem.remedy("write at least 1KiB")]);
        }
        // A piece that is larger than the burst would wait although nothing went before it.
        let burst = settings.burst.map_or(rate / 10, |burst| burst.0);
        let pace = Pace {
            rate,
            burst: burst.max(PIECE as u64),
        };

        Ok(Arc::new(Self(Some(Arc::new(Limited {
            shared_by: settings.shared_by,
            buckets: Buckets::new(pace),
        })))))
    }

    /// The buckets of the two directions of a tunnel.
    fn buckets(&self, tunnel: &TunnelSubject<'_>) -> Result<[Arc<Bucket>; 2], Refusal> {
        let Some(limited) = &self.0 else {
            let details = "`limit` has no rate: write `{ limit: { per_second: 1MiB } }`";
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        };
        let owner = match (limited.shared_by, tunnel.user) {
            (SharedBy::All, _) => BucketOwner::All,
            (SharedBy::User, Some(user)) => BucketOwner::User(user.into()),
            (SharedBy::User, None) => BucketOwner::Source(tunnel.source.peer.ip()),
        };
        let found = limited.buckets.of(owner, Instant::now());
        found.ok_or_else(|| {
            let details = "too many users at once for the rate limit";
            Refusal::new(ProxyError::ConnectionLimitReached, details)
                .status(StatusCode::SERVICE_UNAVAILABLE)
        })
    }
}

impl Transform for Limit {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let begun = match tunnel.payload {
            Payload::Bytes => self.buckets(tunnel).map(|[up, down]| {
                Some(Altering {
                    to_target: Box::new(LimitedBytes::new(up)),
                    to_client: Box::new(LimitedBytes::new(down)),
                })
            }),
            Payload::Packets => {
                let details = "`limit` bounds no tunnels of IP packets";
                Err(Refusal::new(ProxyError::ProxyConfigurationError, details))
            }
            Payload::Datagrams | Payload::Message => Ok(None),
        };
        Box::pin(std::future::ready(begun))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let begun = self.buckets(tunnel).map(|[up, down]| {
            Some(AlteringDatagrams {
                to_target: Box::new(LimitedDatagrams(up)),
                to_client: Box::new(LimitedDatagrams(down)),
            })
        });
        Box::pin(std::future::ready(begun))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }
}

/// One direction of a tunnel of bytes.
struct LimitedBytes {
    bucket: Arc<Bucket>,
    /// The turn of the next piece, while it waits.
    turn: Option<std::pin::Pin<Box<Sleep>>>,
    /// How long the last piece has the next one wait.
    wait: Option<Instant>,
}

impl LimitedBytes {
    fn new(bucket: Arc<Bucket>) -> Self {
        Self {
            bucket,
            turn: None,
            wait: None,
        }
    }
}

impl Alter for LimitedBytes {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(until) = self.wait.take() {
            self.turn = Some(Box::pin(sleep_until(until)));
        }
        if let Some(turn) = &mut self.turn {
            std::task::ready!(turn.as_mut().poll(cx));
            self.turn = None;
        }
        Poll::Ready(())
    }

    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        let passed = pass(input, output);
        if passed > 0 {
            // Paid afterwards: each tunnel has one piece at a time in the queue of its user, so that turns are fair.
            let now = Instant::now();
            let until = self.bucket.pay(passed, now);
            self.wait = (until > now + Duration::from_millis(1)).then_some(until);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        Ok(true)
    }
}

/// One direction of a tunnel of datagrams.
struct LimitedDatagrams(Arc<Bucket>);

impl AlterDatagram for LimitedDatagrams {
    fn alter(&mut self, datagram: &[u8], _: &mut BytesMut) -> Result<DatagramFate, String> {
        Ok(match self.0.admits(datagram.len(), Instant::now()) {
            true => DatagramFate::Unchanged,
            false => DatagramFate::Dropped,
        })
    }
}
