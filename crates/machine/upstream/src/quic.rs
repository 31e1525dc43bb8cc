//! Reaching an endpoint over QUIC, beside TCP or instead of it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;

use hermes_net::LocalEnd;
use hermes_net::quic::{ClientConfig, Connection, ConnectionError, Endpoint as Socket};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{ConnectFailure, FailureKind};

/// How long the preferred protocol is tried alone before the other begins too (RFC 8305 section 5:
/// 100 ms to 2 s, and more than a round trip).
#[doc(alias = "bound")]
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// How long QUIC is left out after its first failure; doubled with each further one.
#[doc(alias = "bound")]
const FIRST_REST: Duration = Duration::from_secs(5);

/// How long QUIC is left out at most: a path that carries it again is found within minutes.
#[doc(alias = "bound")]
const LONGEST_REST: Duration = Duration::from_secs(300);
/// A failure so long ago does not make the next rest longer: twice the longest rest.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// How long QUIC is doubted at most after a connection fell silent: usually its state is known
/// sooner.
#[doc(alias = "bound")]
const DOUBT: Duration = Duration::from_secs(10);
/// Why QUIC is left out after that.
pub(crate) const SILENT: &str = "UDP became silent";

/// Why a connection does not come about where nothing listens.
const NOT_LISTENING: &str = "nothing listens on that UDP port (ICMP)";

/// The memory of QUIC to one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    known: Mutex<QuicHistory>,
    /// How long a round trip took when a connection came about last.
    rtt: Mutex<Option<Duration>>,
}

#[derive(Debug, Default, Clone)]
struct QuicHistory {
    works: bool,
    failures: u32,
    failed_at: Option<Instant>,
    rest_until: Option<Instant>,
    reason: Option<String>,
    /// Until then it is doubted, though nothing is known for certain.
    doubted_until: Option<Instant>,
}

impl Memory {
    /// Whether QUIC should be tried where there is another way.
    pub(crate) fn is_worth_trying(&self, now: Instant) -> bool {
        self.known
            .lock()
            .rest_until
            .is_none_or(|until| now >= until)
    }

    /// A connection came about, in time.
    pub(crate) fn worked(&self) {
        *self.known.lock() = QuicHistory {
            works: true,
            ..QuicHistory::default()
        };
    }

    /// A round trip took so long when a connection came about.
    pub(crate) fn measured(&self, rtt: Duration) {
        *self.rtt.lock() = Some(rtt);
    }

    /// How long a round trip is expected to take.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        *self.rtt.lock()
    }

    /// Connections came about beside another way that was used since the last failure. If that lasts, the failures are forgotten.
    pub(crate) fn worked_again(&self) {
        let mut known = self.known.lock();
        let QuicHistory {
            failures,
            failed_at,
            ..
        } = *known;
        *known = QuicHistory {
            works: true,
            failures,
            failed_at,
            ..QuicHistory::default()
        };
    }

    /// A connection that came about has fallen silent: until that is explained, another way is tried at once beside QUIC.
    pub(crate) fn doubted(&self, now: Instant) {
        self.known.lock().doubted_until = Some(now + DOUBT);
    }

    /// How long QUIC is tried alone.
    pub(crate) fn head_start(&self, now: Instant) -> Duration {
        let doubted = self
            .known
            .lock()
            .doubted_until
            .is_some_and(|until| now < until);
        if doubted { Duration::ZERO } else { HEAD_START }
    }

    /// A connection fell silent, and another way reached the endpoint. All connections of a path
    /// fall silent together: that is one failure. Returns whether this report is the first.
    pub(crate) fn fell_silent(&self, now: Instant) -> bool {
        if self.is_worth_trying(now) {
            self.failed(SILENT, now);
        }
        let mut known = self.known.lock();
        known.doubted_until = None;
        known.reason.replace(SILENT.to_owned()).as_deref() != Some(SILENT)
    }

    /// As [`Self::failed`], for an attempt beside the link in use: several workers make one, and
    /// that is one failure.
    pub(crate) fn failed_beside(&self, reason: &str, now: Instant) {
        if self.is_worth_trying(now) {
            self.failed(reason, now);
        }
    }

    /// No connection came about, or too late.
    pub(crate) fn failed(&self, reason: &str, now: Instant) {
        let mut known = self.known.lock();
        let forgotten = known
            .failed_at
            .is_some_and(|at| now.duration_since(at) > FORGOTTEN);
        let failures = if forgotten { 0 } else { known.failures };
        let rest = FIRST_REST
            .saturating_mul(1 << failures.min(16))
            .min(LONGEST_REST);
        *known = QuicHistory {
            works: false,
            failures: failures.saturating_add(1),
            failed_at: Some(now),
            rest_until: Some(now + rest),
            reason: Some(reason.to_owned()),
            doubted_until: known.doubted_until,
        };
    }

    /// Why it failed last, unless it worked since.
    pub(crate) fn reason(&self) -> Option<String> {
        self.known.lock().reason.clone()
    }

    /// How long until it is tried again beside another way; `None` where it is not left out.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        self.known
            .lock()
            .rest_until
            .map(|until| until.saturating_duration_since(now))
            .filter(|rest| !rest.is_zero())
    }

    /// For people.
    pub(crate) fn words(&self, now: Instant) -> String {
        let known = self.known.lock().clone();
        match (known.works, known.reason) {
            (true, _) => "works".to_owned(),
            (false, None) => "not tried yet".to_owned(),
            (false, Some(reason)) => match known.rest_until.filter(|until| *until > now) {
                Some(until) => format!("left out for {} s: {reason}", (until - now).as_secs() + 1),
                None => format!("to be tried again: {reason}"),
            },
        }
    }
}

/// Connects to the first of `addresses` that answers (RFC 8305), each from a socket of its own: so that the server's workers, and
/// the queues of network cards, share the connections.
pub(crate) async fn connect(
    addresses: &[SocketAddr],
    leaving: Leaving<'_>,
    name: &str,
    until: Instant,
    endpoint: &str,
) -> Result<Connection, ConnectFailure> {
    match timeout_at(until, race(addresses, leaving, name, endpoint)).await {
        Ok(done) => done,
        Err(_) => Err(ConnectFailure::timeout(endpoint)),
    }
}

/// How connections are made, and where they leave from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving<'a> {
    pub(crate) config: &'a ClientConfig,
    pub(crate) from: &'a LocalEnd,
}

type Racing<'a> = Pin<Box<dyn Future<Output = Result<Connection, ConnectFailure>> + Send + 'a>>;

fn race<'a>(
    addresses: &'a [SocketAddr],
    leaving: Leaving<'a>,
    name: &'a str,
    endpoint: &'a str,
) -> Racing<'a> {
    Box::pin(async move {
        let Some((first, rest)) = addresses.split_first() else {
            return Err(ConnectFailure::new(
                FailureKind::NoEndpoint,
                endpoint,
                "the name has no address",
            ));
        };

        let first = one(*first, leaving, name, endpoint);
        if rest.is_empty() {
            return first.await;
        }

        staggered(HEAD_START, first, race(rest, leaving, name, endpoint))
            .await
            .0
    })
}

async fn one(
    to: SocketAddr,
    leaving: Leaving<'_>,
    name: &str,
    endpoint: &str,
) -> Result<Connection, ConnectFailure> {
    let Leaving { config, from } = leaving;
    let socket = Socket::client_from(to, from).map_err(|error| {
        let kind = ConnectFailure::kind_of_socket(&error).unwrap_or(FailureKind::Local);
        ConnectFailure::new(kind, endpoint, format!("no UDP socket: {error}"))
    })?;
    tokio::select! {
        biased;
        connected = socket.connect(to, name, config) => connected.map_err(|error| failure(endpoint, &error)),
        // As TCP takes it (RFC 5461, 4): until there is a connection, that is the answer.
        () = socket.refused() => Err(ConnectFailure::new(FailureKind::Refused, endpoint, NOT_LISTENING)),
    }
}

/// Which of two ways succeeded, and the fate of the first.
#[derive(Debug)]
pub(crate) enum First {
    /// The first one succeeded.
    Won,
    /// The first one failed, for this reason.
    Failed(String),
    /// The first one was slower than the second, or still silent when the second had failed and
    /// both were given up.
    Slow,
}

/// The first success of two ways, of which `first` begins earlier by `head_start`. If both fail, the failure of the second, which began last.
pub(crate) async fn staggered<T>(
    head_start: Duration,
    first: impl Future<Output = Result<T, ConnectFailure>> + Send,
    second: impl Future<Output = Result<T, ConnectFailure>> + Send,
) -> (Result<T, ConnectFailure>, First) {
    let mut first = pin!(first);
    match timeout(head_start, &mut first).await {
        Ok(Ok(done)) => return (Ok(done), First::Won),
        Ok(Err(failure)) => return (second.await, First::Failed(failure.reason)),
        Err(_) => {}
    }

    let mut second = pin!(second);
    tokio::select! {
        done = &mut first => match done {
            Ok(done) => (Ok(done), First::Won),
            Err(failure) => (second.await, First::Failed(failure.reason)),
        },
        done = &mut second => match done {
            Ok(done) => (Ok(done), First::Slow),
            Err(failure) => match first.await {
                Ok(done) => (Ok(done), First::Won),
                Err(own) => (Err(failure), First::Failed(own.reason)),
            },
        },
    }
}

pub(crate) fn failure(endpoint: &str, error: &ConnectionError) -> ConnectFailure {
    /// CONNECTION_REFUSED (RFC 9000, section 20.1).
    const REFUSED: u64 = 2;
    let kind = match error {
        ConnectionError::Tls(error) => return ConnectFailure::tls(endpoint, error),
        ConnectionError::Transport { code: REFUSED, .. } | ConnectionError::Reset => {
            FailureKind::Refused
        }
        ConnectionError::TimedOut => FailureKind::Timeout,
        ConnectionError::Application { .. }
        | ConnectionError::Transport { .. }
        | ConnectionError::Version => FailureKind::Protocol,
        ConnectionError::Local | ConnectionError::Other(_) => FailureKind::Unreachable,
    };

    ConnectFailure::new(kind, endpoint, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn refused() -> ConnectFailure {
        ConnectFailure::new(FailureKind::Refused, "x:443", "refused")
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_way_begins_when_the_first_fails_or_its_head_start_is_over() {
        let began = Instant::now();
        let (done, first) = staggered(HEAD_START, ready(Err(refused())), ready(Ok(2))).await;
        assert_eq!((done.unwrap(), began.elapsed()), (2, Duration::ZERO));
        assert!(matches!(first, First::Failed(reason) if reason == "refused"));

        let (done, first) = staggered(HEAD_START, pending(), ready(Ok(2))).await;
        assert_eq!((done.unwrap(), began.elapsed()), (2, HEAD_START));
        assert!(matches!(first, First::Slow));

        let late = async {
            tokio::time::sleep(HEAD_START * 2).await;
            Ok(1)
        };
        let (done, first) = staggered(HEAD_START, late, pending()).await;
        assert_eq!(done.unwrap(), 1);
        assert!(matches!(first, First::Won));

        let late = async {
            tokio::time::sleep(HEAD_START * 2).await;
            Ok(1)
        };
        assert_eq!(
            staggered(HEAD_START, late, ready(Err(refused())))
                .await
                .0
                .unwrap(),
            1,
            "a slow way is better than none"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_rests_longer_each_time_and_no_longer_once_it_works() {
        let (memory, now) = (Memory::default(), Instant::now());
        assert!(memory.is_worth_trying(now));
        memory.failed("silence", now);
        assert_eq!(memory.words(now), "left out for 6 s: silence");
        assert!(!memory.is_worth_trying(now) && memory.is_worth_trying(now + FIRST_REST));
        memory.failed("silence", now);
        assert!(
            !memory.is_worth_trying(now + FIRST_REST)
                && memory.is_worth_trying(now + 2 * FIRST_REST)
        );
        for _ in 0..70 {
            memory.failed("silence", now);
        }
        assert!(memory.is_worth_trying(now + LONGEST_REST));
        memory.worked();
        assert_eq!(memory.words(now), "works");
        memory.failed("silence", now);
        assert!(memory.is_worth_trying(now + FIRST_REST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_works_now_and_then_rests_longer_each_time() {
        let (memory, now) = (Memory::default(), Instant::now());
        memory.fell_silent(now);
        memory.worked_again();
        assert_eq!(memory.words(now), "works");
        memory.fell_silent(now);
        assert!(
            !memory.is_worth_trying(now + FIRST_REST)
                && memory.is_worth_trying(now + 2 * FIRST_REST)
        );
        memory.worked_again();
        let later = now + FORGOTTEN * 2;
        memory.fell_silent(later);
        assert!(
            memory.is_worth_trying(later + FIRST_REST),
            "that was long ago"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_fall_silent_together_are_one_failure_and_until_it_is_known_nothing_waits_for_quic()
     {
        let (memory, now) = (Memory::default(), Instant::now());
        memory.worked();
        memory.doubted(now);
        assert_eq!(
            (memory.head_start(now), memory.head_start(now + DOUBT)),
            (Duration::ZERO, HEAD_START)
        );
        for _ in 0..8 {
            memory.fell_silent(now);
        }
        assert_eq!(memory.words(now), "left out for 6 s: UDP became silent");
        assert!(memory.is_worth_trying(now + FIRST_REST));
        assert_eq!(memory.head_start(now), HEAD_START);
    }
}
