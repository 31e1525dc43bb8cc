//! One attachment, seen from the node that is attached to.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hermes_http::client::TcpLink;
use hermes_http::h2::Keepalive;
use hermes_http::{Incoming, Outgoing};
use hermes_net::{PeerAddress, Stream, StreamInfo};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lent::{BorrowedTunnel, Count};
use super::{AttachmentView, Place};
use crate::link_use::Use;
use crate::pool::EXCHANGES;
use crate::tunnel_io::TunnelIo;

/// How both sides watch an attachment: one that is gone without a word is noticed within 9 s, as on
/// links.
#[doc(alias = "bound")]
pub const ATTACHMENT_KEEPALIVE: Keepalive = Keepalive {
    every: Duration::from_secs(4),
    timeout: Duration::from_secs(5),
};

/// How long a node may take to begin HTTP/2: one that sends a byte now and then is not silent.
#[doc(alias = "bound")]
const BEGINNING: Duration = Duration::from_secs(10);

/// The carrier of an attachment, and its user.
pub struct Carried {
    /// The connection that the request came on.
    pub source: Arc<StreamInfo>,
    /// Its version: `h1`, `h2` or `h3`.
    pub version: &'static str,
    /// The user of the request.
    pub user: Option<String>,
    /// Counts the bytes.
    pub count: Count,
}

/// Why an attachment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached<T> {
    /// The node did not begin HTTP/2.
    NeverBegan,
    /// The node ended it, or fell silent, or the carrier broke.
    Gone,
    /// The attachment is worn out, and the node attaches anew.
    Worn,
    /// The attachment was told to end.
    Dismissed(T),
}

/// An attached node's link.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) name: String,
    pub(super) number: u64,
    /// As records say it.
    pub(super) text: Arc<str>,
    pub(super) peer: PeerAddress,
    pub(super) link: TcpLink,
    pub(super) uses: Arc<Use>,
    pub(super) begun: AtomicU64,
    version: &'static str,
    user: Option<String>,
    since: Instant,
    worn: CancellationToken,
}

impl Attachment {
    /// Whether another should take over, because stream identifiers and the budgets of a link's
    /// life are limited; the node is then made to attach anew.
    pub(super) fn is_worn(&self) -> bool {
        let worn = self.begun.load(Ordering::Relaxed) >= EXCHANGES || self.link.is_retired();
        if worn {
            self.worn.cancel();
        }
        worn
    }

    /// The less, the sooner it is taken.
    pub(super) fn load(&self) -> (bool, usize, u64) {
        let streams = self.uses.streams();
        (
            streams >= self.link.max_streams(),
            streams,
            self.begun.load(Ordering::Relaxed),
        )
    }

    pub(super) fn view(&self) -> AttachmentView {
        AttachmentView {
            attachment: self.text.to_string(),
            peer: self.peer.to_string(),
            carrier: self.version,
            user: self.user.clone(),
            since_seconds: self.since.elapsed().as_secs(),
            active: self.uses.streams(),
            exchanges: self.begun.load(Ordering::Relaxed),
        }
    }
}

impl Place {
    /// Begins HTTP/2 on the tunnel, in which the node is the server, and lets exchanges take it until it ends or `dismissed`
    /// resolves. Then those that are open go on to their ends, and the node is told.
    pub async fn serve<T>(
        self,
        tunnel: (Incoming, Outgoing),
        carried: Carried,
        dismissed: impl Future<Output = T>,
    ) -> Detached<T> {
        let ended = CancellationToken::new();
        let worn = CancellationToken::new();
        let owner = (ended.clone().drop_guard(), carried.count);
        let io = BorrowedTunnel::new(TunnelIo::new(tunnel.0, tunnel.1), owner);
        let stream = Stream::other(Box::new(io), (*carried.source).clone());
        let beginning = timeout(BEGINNING, begin(stream));
        let mut dismissed = pin!(dismissed);
        let begun = tokio::select! {
            begun = beginning => begun.ok().flatten().ok_or(Detached::NeverBegan),
            word = &mut dismissed => Err(Detached::Dismissed(word)),
        };

        let detached = match begun {
            Ok(link) => {
                self.enter(self.attachment(
                    link,
                    carried.source.peer,
                    carried.version,
                    carried.user,
                    worn.clone(),
                ));
                tokio::select! {
                    () = ended.cancelled() => Detached::Gone,
                    () = worn.cancelled() => Detached::Worn,
                    word = dismissed => Detached::Dismissed(word),
                }
            }
            Err(detached) => detached,
        };

        // The link is not found any more; it ends with its last exchange, and needs its carrier
        // until then.
        drop(self);
        ended.cancelled().await;
        detached
    }

    fn attachment(
        &self,
        link: TcpLink,
        peer: PeerAddress,
        version: &'static str,
        user: Option<String>,
        worn: CancellationToken,
    ) -> Arc<Attachment> {
        Arc::new(Attachment {
            text: self.text(),
            name: self.name.clone(),
            number: self.number,
            peer,
            link,
            uses: Arc::default(),
            begun: AtomicU64::new(0),
            version,
            user,
            since: Instant::now(),
            worn,
        })
    }

    /// The attachment as records say it.
    pub fn text(&self) -> Arc<str> {
        format!("{}#{}", self.name, self.number).into()
    }
}

/// A link to a peer that is known to speak HTTP/2.
async fn begin(stream: Stream) -> Option<TcpLink> {
    let link = TcpLink::connect(stream, Some(ATTACHMENT_KEEPALIVE), &TaskTracker::new())
        .await
        .ok()?;
    // A PING's answer proves that something reads on the other side: SETTINGS alone could have been sent blindly.
    let has_begun = link.settled().await && link.answered().await;
    has_begun.then_some(link)
}

#[cfg(test)]
mod tests;
