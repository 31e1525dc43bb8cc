//! Attempts beside each other: when the first is slow, another begins, and the first good response wins.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use hermes_config::model::Hedge;
use hermes_http::{Event, Incoming, Outgoing, Pending, RequestHead, ResponseHead};
use hermes_plug::target::Target;
use tokio::time::Instant;

use super::no_response::NoResponse;
use crate::reach;
use crate::reach::Reached;
use crate::reach::retry::{Tries, within};
use crate::reach::verdict;

/// Attempts at once where nothing is configured.
#[doc(alias = "bound")]
const MOST: u8 = 2;

/// Interim responses of a hedged attempt that are kept until it wins; servers rarely send more than
/// a few.
#[doc(alias = "bound")]
const INTERIM: usize = 8;

/// A response head, and the stream that it came on.
pub(crate) struct Responded {
    pub(crate) head: ResponseHead,
    pub(crate) incoming: Incoming,
    /// Interim responses that came before.
    pub(crate) interim: Vec<ResponseHead>,
    pub(crate) endpoint: Arc<str>,
    /// To be kept until the content has passed: the exchange's other half, and its place on the endpoint.
    pub(crate) held: (Outgoing, Pending, hermes_upstream::Active),
}

impl Responded {
    fn is_good(&self) -> bool {
        !verdict::is_server_error(self.head.status)
    }
}

type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Responded, NoResponse>> + Send + 'a>>;

/// The first good response to a request without content; else the best that came. The loser is cancelled.
///
/// # Errors
/// No attempt had a response.
pub(crate) async fn race(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
    hedge: &Hedge,
) -> Result<Responded, NoResponse> {
    let begin = || -> Attempt<'_> { Box::pin(attempt(tries, head, target)) };
    let mut running = vec![begin()];
    let mut left = hedge.most.unwrap_or(MOST).saturating_sub(1);
    let mut best: Option<Result<Responded, NoResponse>> = None;
    let late = tokio::time::sleep(hedge.after.0);
    tokio::pin!(late);

    loop {
        tokio::select! {
            (index, ended) = first(&mut running) => {
                drop(running.swap_remove(index));
                match ended {
                    Ok(answered) if answered.is_good() => return Ok(answered),
                    // An answer says more than none.
                    ended if ended.is_ok() || best.is_none() => best = Some(ended),
                    _ => {}
                }

                match best.take() {
                    Some(best) if running.is_empty() => return best,
                    kept => best = kept,
                }
            }
            () = late.as_mut(), if left > 0 => {
                if tries.may_hedge() {
                    running.push(begin());
                    left -= 1;
                } else {
                    left = 0;
                }
                late.as_mut().reset(Instant::now() + hedge.after.0);
            }
        }
    }
}

/// The next attempt that ends.
async fn first(running: &mut [Attempt<'_>]) -> (usize, Result<Responded, NoResponse>) {
    poll_fn(|cx| {
        for (index, attempt) in running.iter_mut().enumerate() {
            if let Poll::Ready(ended) = attempt.as_mut().poll(cx) {
                return Poll::Ready((index, ended));
            }
        }
        Poll::Pending
    })
    .await
}

/// One attempt of a request without content, to its response head.
///
/// # Errors
/// There was none.
pub(crate) async fn attempt(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
) -> Result<Responded, NoResponse> {
    let deadline = tries.begin();
    let reached = within(deadline, pin!(reach::open(tries, head, target, Some(0)))).await;
    let Reached {
        mut outgoing,
        mut pending,
        active,
        endpoint,
        reused,
        hop,
    } = reached.unwrap_or_else(|| Err(reach::Unreached::too_late(tries)))?;

    let mut interim = Vec::new();
    let answered = async {
        outgoing
            .finish(None)
            .await
            .map_err(|error| NoResponse::of(&error, reused))?;
        loop {
            match pending
                .event(None)
                .await
                .map_err(|error| NoResponse::broken(&active, &error, reused))?
            {
                Event::Interim(head) if interim.len() < INTERIM => interim.push(head),
                // More of them would wait in memory until the race is decided.
                Event::Interim(_) => {}
                Event::Final(head, incoming) => return Ok((head, incoming)),
                Event::Tunnel(..) => return Err(NoResponse::unexpected_tunnel()),
            }
        }
    };

    let wait = if deadline.is_some() {
        tries.attempt()
    } else {
        tries.header(hop)
    };

    let answered = within(deadline.or_else(|| wait.deadline()), pin!(answered)).await;
    let answered = answered.unwrap_or_else(|| Err(NoResponse::timeout(wait.no_head(tries))));
    let (head, incoming) = answered.map_err(|error| error.next_hop(&endpoint))?;
    verdict::answered(&active, tries.next, head.status);

    Ok(Responded {
        head,
        incoming,
        interim,
        endpoint,
        held: (outgoing, pending, active),
    })
}
