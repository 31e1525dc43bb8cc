//! A connection to the target from here, beside a next proxy or in its place (`tunnel.direct` of a route): the first to be open is the tunnel.
//!
//! No byte of the client leaves before one of them is, and the other one is given up then: nothing is sent twice.

use std::pin::pin;
use std::time::Duration;

use hermes_admit::next::{Direct, Next};
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Event, Kind, RequestHead};
use hermes_observe::CLIENT_CLOSED;
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::tcp_bind;
use hermes_upstream::Dialled;

use super::Unopened;
use super::bytes::ByteTunnel;
use crate::carried::Carried;
use crate::failed::Failed;
use crate::reach::departure::depart;
use crate::reach::early_bytes::EarlyBytes;
use crate::reach::next_tunnel::{self, Open};
use crate::reach::retry::Tries;
use crate::reach::termination::halves;
use crate::reach::{descriptor_share, dial, form};

/// Descriptors of both.
const DESCRIPTORS: usize = 2;

/// The rules of an exchange's route for connections from here.
pub(super) fn of<'n>(next: &'n Next, head: &RequestHead) -> Option<&'n Direct> {
    let is_bytes = matches!(head.kind(), Kind::Connect | Kind::ConnectTcp);
    // A port that waits is where the overlay ends.
    next.direct()
        .filter(|_| is_bytes && !tcp_bind::is_asked_for(&head.fields))
}

/// Opens the tunnel that is open first. The next proxy has a head start, or the whole way for as long as it does not fail.
pub(super) async fn race(
    tries: &Tries<'_>,
    direct: &Direct,
    arrival: &mut Arrival,
    departing: &RequestHead,
    target: &Target,
) -> Result<Open, Unopened> {
    let arrived = arrival.head().clone();
    let racing = run(tries, direct, &arrived, departing, target);
    let first = arrival.unless_gone(racing, "before the tunnel was open");
    match first.await.map_err(Unopened::Refused)? {
        First::Overlay(open) => {
            // The record names the way that was taken.
            if let Some(endpoint) = tries.tried().last() {
                tries.goes_to(endpoint);
            }
            Ok(open)
        }
        First::Direct(dialled) => Err(Unopened::Direct(Box::new(dialled))),
    }
}

async fn run(
    tries: &Tries<'_>,
    direct: &Direct,
    arrived: &RequestHead,
    departing: &RequestHead,
    target: &Target,
) -> Result<First<Open, Dialled>, Refusal> {
    let routed = tries.routed;
    descriptor_share::take_all(routed, DESCRIPTORS)?;
    let (_, own_target) = depart(routed, arrived.clone(), &direct.next)?;
    let own_tries = Tries::new(routed, &direct.next, arrived);
    let mut none = EarlyBytes::default();
    let overlay = next_tunnel::open(tries, departing, target, &mut none);
    let dialling = dial(&own_tries, &own_target);
    first(overlay, dialling, direct.after, allows_direct).await
}

/// Whether the outcome of the next proxy leaves the connection from here to be tried: it had no answer, or one that says that it failed. One
/// that says no is heeded.
fn allows_direct(outcome: &Result<Open, Refusal>) -> bool {
    match outcome {
        Ok(open) => match &open.answer {
            Event::Final(head, _) => head.status.is_server_error(),
            Event::Tunnel(..) | Event::Interim(_) => false,
        },
        Err(refusal) => refusal.for_ingress().status.is_server_error(),
    }
}

/// The one of two that is first.
enum First<A, B> {
    Overlay(A),
    Direct(B),
}

/// Waits for the first that succeeds; the second begins after a time, if there is one, or when the first has failed in a way that allows it. If both
/// fail, the outcome is that of the first.
async fn first<A, B, E>(
    overlay: impl Future<Output = Result<A, E>>,
    direct: impl Future<Output = Result<B, E>>,
    after: Option<Duration>,
    allows_direct: impl Fn(&Result<A, E>) -> bool,
) -> Result<First<A, B>, E> {
    let mut overlay = pin!(overlay);
    let mut direct = pin!(direct);
    let head_start = async {
        match after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };

    let outcome = tokio::select! {
        biased;
        outcome = &mut overlay => Some(outcome),
        () = head_start => None,
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        // Both are on their way. One that has failed leaves the other.
        None => tokio::select! {
            biased;
            outcome = &mut overlay => outcome,
            connected = &mut direct => return match connected {
                Ok(connected) => Ok(First::Direct(connected)),
                Err(_) => overlay.await.map(First::Overlay),
            },
        },
    };
    if !allows_direct(&outcome) {
        return outcome.map(First::Overlay);
    }
    match direct.await {
        Ok(connected) => Ok(First::Direct(connected)),
        Err(_) => outcome.map(First::Overlay),
    }
}

/// Tells the client that its connection, made from here, is open.
pub(super) async fn accept(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
    dialled: Dialled,
) -> Result<Carried, Failed> {
    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let opened = Opened::new(routed, arrival.head(), next, None).from_here(dialled.address);
    let guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let fields = form::opening_fields(routed, kind);
    Ok(match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => Carried::tunnel(ByteTunnel {
            client: form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing }),
            target: halves(dialled.stream),
            guard,
            _active: dialled.active,
            learner: None,
        }),
        Ok(End::Packets(_)) => {
            let reason = "proxy_internal_error: datagrams cannot enter a TCP connection";
            Carried::Over(reason.to_owned())
        }
        Err(error) => Carried::Over(format!("{CLIENT_CLOSED}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    const HEAD_START: Duration = Duration::from_millis(250);

    /// After so many milliseconds, this outcome; notes when it began.
    async fn after(
        began: &Cell<Option<u128>>,
        clock: Instant,
        millis: u64,
        outcome: Result<u8, u8>,
    ) -> Result<u8, u8> {
        began.set(Some(clock.elapsed().as_millis()));
        sleep(Duration::from_millis(millis)).await;
        outcome
    }

    /// Who won, and when the second began.
    async fn run(
        overlay: (u64, Result<u8, u8>),
        direct: (u64, Result<u8, u8>),
        head_start: Option<Duration>,
    ) -> (Result<char, u8>, Option<u128>, u128) {
        let clock = Instant::now();
        let ignored = Cell::new(None);
        let began = Cell::new(None);
        let overlay = after(&ignored, clock, overlay.0, overlay.1);
        let direct = after(&began, clock, direct.0, direct.1);
        // Refusals below 50 are meant.
        let allows = |outcome: &Result<u8, u8>| outcome.is_err_and(|code| code >= 50);
        let won = first(overlay, direct, head_start, allows).await;
        let won = won.map(|first| match first {
            First::Overlay(_) => 'o',
            First::Direct(_) => 'd',
        });
        (won, began.get(), clock.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_overlay_wins_within_its_head_start_and_nothing_else_begins() {
        let won = run((249, Ok(1)), (0, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), None, 249));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_of_both_wins_after_the_head_start() {
        let won = run((900, Ok(1)), (100, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('d'), Some(250), 350));
        let won = run((300, Ok(1)), (100, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), Some(250), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_the_overlay_lets_the_other_begin_at_once() {
        for head_start in [Some(HEAD_START), None] {
            let won = run((10, Err(52)), (100, Ok(2)), head_start).await;
            assert_eq!(won, (Ok('d'), Some(10), 110));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_race_a_slow_overlay_is_waited_for() {
        let won = run((60_000, Ok(1)), (0, Ok(2)), None).await;
        assert_eq!(won, (Ok('o'), None, 60_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_is_meant_stands() {
        for head_start in [Some(HEAD_START), None] {
            let won = run((10, Err(43)), (0, Ok(2)), head_start).await;
            assert_eq!(won, (Err(43), None, 10));
        }
        let won = run((300, Err(43)), (1000, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Err(43), Some(250), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn if_both_fail_the_reason_is_that_of_the_overlay() {
        let won = run((900, Err(54)), (100, Err(60)), Some(HEAD_START)).await;
        assert_eq!(won, (Err(54), Some(250), 900));
        let won = run((10, Err(54)), (100, Err(60)), None).await;
        assert_eq!(won, (Err(54), Some(10), 110));
        let won = run((900, Ok(1)), (100, Err(60)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), Some(250), 900));
    }
}
