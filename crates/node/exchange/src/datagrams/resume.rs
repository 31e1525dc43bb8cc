//! A tunnel of datagrams whose path broke: it is opened again towards the target, and waits to be opened from the client.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_admit::reevaluate::{Opened, TunnelGuard, TunnelState};
use hermes_http::{Kind, Reset};
use hermes_packet::Broken;
use hermes_packet::{Asked, Claim, Handed, KEPT_FOR, Token};
use hermes_packet::{PacketReader, Source};
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use tokio::time::{Instant, sleep, timeout};

use crate::datagrams::Tunnel;
use crate::reach::datagram_path::Path;
use crate::reach::opening;
use crate::reach::session_token::Resumption;

/// A path that was opened again and broke within this time is not opened once more: it would be the same.
#[doc(alias = "bound")]
const SHORTEST: Duration = Duration::from_secs(1);

/// Pause before a path that could not be opened is tried once more; doubles up to [`LONGEST_PAUSE`].
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(100);

/// Longest time between two tries: a session is back within a second of the proxy that it goes through. All sessions share the
/// connections that are tried.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The reason given for a tunnel whose session goes on in another.
pub(crate) const TAKEN_OVER: &str = "done: its session was taken over";

/// How often a tunnel was opened again, and when last.
#[derive(Debug, Default)]
pub(crate) struct Again {
    times: u32,
    last: Option<Instant>,
}

impl Tunnel {
    /// Opens the path towards the target again, where the session that ends there can be taken over.
    ///
    /// # Errors
    /// How the tunnel ends, because it cannot be opened again.
    pub(crate) async fn open_again(
        &mut self,
        broken: Broken,
        guard: &mut TunnelGuard,
    ) -> Result<(), Broken> {
        let Resumption::Beyond(token) = self.path.resumption else {
            return Err(broken);
        };

        if self.is_path_signed_by_others() {
            return Err(broken);
        }

        // The client opens it again, from the beginning of a capsule.
        if self.client.source.is_within() || self.path.ends.source.is_within() {
            return Err(broken.note("within a capsule"));
        }
        if self
            .again
            .last
            .is_some_and(|last| last.elapsed() < SHORTEST)
        {
            return Err(broken);
        }

        self.path.ends.sink.reset(broken.reset);
        let kind = guard.state().head().kind();
        let reopening = pin!(timeout(KEPT_FOR, reopen(guard.state().clone(), token)));
        let reopened = tokio::select! {
            reopened = self.client.source.during(reopening, &self.exchange) => reopened,
            reason = guard.ended() => return Err(Broken::policy(&reason)),
            () = self.exchange.evicted() => return Err(broken.note("and others needed its room")),
        };

        match reopened {
            // The client holds the token of the old session: a fresh one would be of no use to it.
            Ok(Ok((path, _))) if !self.may_follow(&path, token, kind) => {
                path.ends.sink.reset(Reset::Cancel);
                Err(broken.note("its session is gone"))
            }
            Ok(Ok((path, opened))) => {
                tracing::debug!(exchange = %self.exchange.id(), reason = broken.reason(), "opened again");
                self.exchange.moved_for(broken.reason());
                (self.path, self.again.last) = (path, Some(Instant::now()));
                self.again.times += 1;
                self.exchange.resumed(self.again.times);
                guard.moved(opened);
                Ok(())
            }
            Ok(Err(refusal)) => {
                Err(broken.note(&format!("not opened again: {}", refusal.reason())))
            }
            Err(_) => Err(broken.note("not opened again in time")),
        }
    }

    /// Whether a node before has signed its request for functions for this path alone: it asks again for another.
    fn is_path_signed_by_others(&self) -> bool {
        let changes = self.path.changes.as_ref();
        let beyond = changes.and_then(|changes| changes.beyond.as_ref());
        beyond.is_some_and(|beyond| beyond.is_of_others())
    }

    /// Whether the tunnel may go on there. A client of a `udp` listener knows of no tunnel: a fresh session serves it as well as the
    /// one that it would get next. One of CONNECT-IP is told of its addresses there. Others are told that their session has ended.
    fn may_follow(&self, path: &Path, token: Token, kind: Kind) -> bool {
        self.client.source.is_end()
            || kind == Kind::ConnectIp
            || matches!(path.resumption, Resumption::Beyond(its) if its == token)
    }

    /// Waits until the session that ends here is taken over, and keeps datagrams that come meanwhile.
    pub(crate) async fn wait(mut self, broken: Broken, guard: &mut TunnelGuard) -> String {
        self.client.sink.reset(broken.reset);
        let (Resumption::Here(entry), Source::End(reader)) =
            (&mut self.path.resumption, &mut self.path.ends.source)
        else {
            return self.end(Err(broken)).await;
        };

        // The target has seen nothing of a socket that sent nothing. As a rule the client broke off before it had the token.
        if entry.times == 0
            && self
                .exchange
                .counters()
                .datagrams_in
                .load(Ordering::Relaxed)
                == 0
        {
            return self.end(Err(broken)).await;
        }
        let Some(_waiting) = entry.wait() else {
            return self.end(Err(broken)).await;
        };

        let state = guard.state().clone();
        let claim = {
            let claimed = pin!(entry.claimed());
            tokio::select! {
                claim = reader.during(claimed, &self.exchange) => Ok(claim),
                () = sleep(KEPT_FOR) => Err(broken),
                // A client that comes for it is sent elsewhere.
                () = state.stops() => Err(broken.note("the node stops")),
                reason = guard.ended() => Err(Broken::policy(&reason)),
                () = self.exchange.evicted() => Err(broken.note("others needed its room")),
            }
        };

        match claim {
            Ok(claim) => self.hand_over(claim),
            Err(broken) => self.end(Err(broken)).await,
        }
    }

    /// Gives the session to its claimant.
    pub(crate) fn hand_over(self, claim: Claim) -> String {
        self.client.sink.settle(&self.exchange);
        // The reset must not look like a broken path: a proxy on it would open it again, and take the session back.
        self.client.sink.reset(Reset::Unneeded);
        let Path {
            ends,
            active,
            resumption,
            ..
        } = self.path;

        if let (Resumption::Here(entry), Source::End(PacketReader::Socket(socket, received))) =
            (resumption, ends.source)
            && let (Ok(another), Some(remote)) = (socket.another(), socket.remote_addr())
        {
            let received = received.handed_over();
            let times = entry.times + 1;
            let _ = claim.send(Handed {
                socket: another,
                remote,
                received,
                active,
                times,
            });
        }

        TAKEN_OVER.to_owned()
    }
}

/// Opens the path by the rules in force, and tries again until it succeeds or a rule forbids it: a proxy that restarts is soon back.
async fn reopen(state: Arc<TunnelState>, token: Token) -> Result<(Path, Opened), Refusal> {
    let mut pause = PAUSE;
    loop {
        let forbidden = |reason: &dyn std::fmt::Display| {
            Refusal::new(ProxyError::HttpRequestDenied, reason.to_string())
        };
        let anew = state
            .anew(state.snapshot())
            .map_err(|reason| forbidden(&reason))?;
        let routed = state.routed(anew.snapshot.clone(), anew.route.clone());

        match opening::open(&routed, &anew.head, Asked::Again(token)).await {
            Ok(opened) => return Ok(opened),
            Err(refusal) if refusal.is_final() || state.is_stopping() => return Err(refusal),
            Err(_) => {}
        }

        tokio::select! {
            // Sessions that broke together need not come back in one moment.
            () = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
            () = state.stops() => {}
        }

        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
