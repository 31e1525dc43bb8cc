//! Messages that arrive: one content, or a stream of many.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_certified::Proof;
use hermes_http::Frame;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Opener, RequestContent};
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::{Delivered, Publish};
use hermes_proto::relay::{Adu, MAX_BESIDE, RelayFrame};
use http::StatusCode;

use crate::account::{Account, Arrival};
use crate::certified::{Claim, ClaimedMessage, check_digest};
use crate::channel::{Channel, Draft, LongHead, NoRoom, Publisher, Unpublished};
use crate::moves::forward;
use crate::space::Space;

/// The longest piece of a long message, in bytes.
#[doc(alias = "bound")]
pub(crate) const PIECE: usize = 64 << 10;

/// The channel that messages go to, and how.
pub(crate) struct Publishing<'a> {
    pub(crate) space: &'a Space,
    /// `None`: no one has subscribed.
    pub(crate) channel: Option<Arc<Channel>>,
    pub(crate) how: Publish,
    pub(crate) content_type: Option<Bytes>,
    /// The account of the user, or of the source of a stranger.
    pub(crate) owner: &'a Arc<Account>,
    /// The longest message that is kept, in bytes.
    pub(crate) limit: usize,
    /// The longest one that passes piece by piece, in bytes.
    pub(crate) long_limit: u64,
    /// How long a message may wait for room.
    pub(crate) wait: Duration,
    /// The path and query of the channel.
    pub(crate) path: &'a str,
    /// The way to another relay, where the channel has gone there.
    pub(crate) opener: Opener,
    /// Whether another relay has sent it here.
    pub(crate) is_forwarded: bool,
    /// By which the sender may publish, where the channel names keys.
    pub(crate) claim: Claim<'a>,
}

/// A request that its sender signed.
pub(crate) struct SignedRequest<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) proof: Proof,
}

/// Why not all was published.
pub(crate) enum NotPublished {
    Refused(Refusal),
    /// There was no room in time for a message, and those that came before it were published.
    NoRoom(NoRoom, Delivered),
}

impl NotPublished {
    /// The same behind messages that were published.
    fn behind(self, before: Delivered) -> Self {
        match self {
            Self::NoRoom(no_room, _) => Self::NoRoom(no_room, before),
            refused @ Self::Refused(_) => refused,
        }
    }
}

impl From<Refusal> for NotPublished {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Publishing<'_> {
    /// Publishes a content as one message.
    pub(crate) async fn whole(
        &self,
        content: &mut RequestContent,
        signed: Option<&SignedRequest<'_>>,
    ) -> Result<Delivered, NotPublished> {
        let most = match self.takes_long(signed) {
            true => self.long_limit.max(self.limit as u64),
            false => self.limit as u64,
        };
        if content.length().is_some_and(|length| length > most) {
            return Err(self.too_long(most).into());
        }
        let mut data = BytesMut::new();
        let mut arrival = self.owner.arrival();
        while let Some(piece) = self.piece(content).await? {
            arrives(&mut arrival, piece.len())?;
            data.extend_from_slice(&piece);
            if data.len() > self.limit {
                if most == self.limit as u64 {
                    return Err(self.too_long(most).into());
                }
                drop(arrival);
                return self.long(content, data.freeze()).await;
            }
        }
        if let Some(signed) = signed {
            check_digest(signed.fields, &data)?;
        }
        let adu = Adu {
            sequence: 0,
            content_type: self.content_type.clone(),
            topic: None,
            is_reliable: false,
            proof: None,
            data: data.freeze(),
        };
        self.one(adu, self.how.clone(), signed.map(|signed| &signed.proof))
            .await
    }

    /// Whether a message that is longer than those that are kept may pass: one that waits for its receivers, and of which no signature or
    /// answer needs the whole.
    fn takes_long(&self, signed: Option<&SignedRequest<'_>>) -> bool {
        self.how.is_reliable && self.how.sequence.is_none() && signed.is_none()
    }

    /// Passes a content on piece by piece, of which this has come.
    async fn long(
        &self,
        content: &mut RequestContent,
        begun: Bytes,
    ) -> Result<Delivered, NotPublished> {
        let Some(channel) = &self.channel else {
            return match self.space.moves.going() {
                Some(_) => Err(self.too_long(self.limit as u64).into()),
                None => Ok(no_receivers()),
            };
        };
        let mut length = begun.len() as u64;
        let mut begun = begun;
        let first = begun.split_to(begun.len().min(PIECE));
        let head = LongHead {
            content_type: self.content_type.clone(),
            topic: self.how.topic.clone().map(Bytes::from),
        };
        let passing = channel.pass(head, first, self.deadline()).await;
        let passing = passing.map_err(|unpublished| match unpublished {
            Unpublished::NoRoom(no_room) => NotPublished::NoRoom(no_room, Delivered::default()),
            _ => self.too_long(self.limit as u64).into(),
        })?;
        let no_room = |no_room| NotPublished::NoRoom(no_room, Delivered::default());
        let mut next = Some(begun);
        while let Some(mut data) = next {
            while !data.is_empty() {
                let piece = data.split_to(data.len().min(PIECE));
                let passed = passing.further(piece, self.deadline()).await;
                passed.map_err(no_room)?;
            }
            next = self.piece(content).await?;
            length += next.as_ref().map_or(0, Bytes::len) as u64;
            if length > self.long_limit {
                return Err(self.too_long(self.long_limit).into());
            }
        }
        let delivered = passing.finish(self.deadline()).await.map_err(no_room)?;
        self.count(&delivered);
        Ok(delivered)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.wait
    }

    fn count(&self, delivered: &Delivered) {
        let counts = &self.space.counts;
        counts
            .enqueued
            .fetch_add(delivered.enqueued, Ordering::Relaxed);
        counts
            .dropped
            .fetch_add(delivered.dropped, Ordering::Relaxed);
    }

    fn too_long(&self, limit: u64) -> Refusal {
        let way = match self.how.is_reliable {
            true => "",
            false => ", or more in the mode `reliable`",
        };
        let details = format!("a message of this channel has at most {limit} bytes{way}");
        Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::PAYLOAD_TOO_LARGE)
    }

    /// Publishes each ADU of a content. A reader that is not fast enough holds up this content alone.
    pub(crate) async fn each(
        &self,
        content: &mut RequestContent,
    ) -> Result<Delivered, NotPublished> {
        let mut decoder = CapsuleDecoder::new((self.limit + MAX_BESIDE) as u64);
        let mut total = Delivered {
            is_exact: true,
            ..Delivered::default()
        };
        let mut arrival = self.owner.arrival();
        while let Some(piece) = self.piece(content).await? {
            arrives(&mut arrival, piece.len())?;
            decoder.push(piece);
            while let Some(capsule) = decoder.next().map_err(malformed)? {
                let frame = RelayFrame::decode(&capsule).map_err(malformed)?;
                if let RelayFrame::Adu(adu) = frame {
                    let delivered = self.adu(adu).await;
                    let delivered = delivered.map_err(|unpublished| unpublished.behind(total))?;
                    add(&mut total, &delivered);
                }
            }
            // The beginning of a message stays until all of it is there.
            arrival.shrink_to(decoder.buffered());
        }
        decoder.finish().map_err(malformed)?;
        Ok(total)
    }

    async fn adu(&self, adu: Adu) -> Result<Delivered, NotPublished> {
        let topic = adu.topic.as_ref();
        let topic = topic.map(|topic| String::from_utf8_lossy(topic).into_owned());
        let how = Publish {
            topic: topic.or_else(|| self.how.topic.clone()),
            // 0: its publisher does not number its messages.
            sequence: (adu.sequence > 0).then_some(adu.sequence),
            ..self.how.clone()
        };
        // The content shares memory with the others of its piece, and a slow reader must not keep those.
        let data = Bytes::copy_from_slice(&adu.data);
        let proof = adu.proof.as_deref().map(Proof::decode).transpose();
        let proof = proof.map_err(malformed)?;
        self.one(Adu { data, ..adu }, how, proof.as_ref()).await
    }

    async fn one(
        &self,
        adu: Adu,
        how: Publish,
        proof: Option<&Proof>,
    ) -> Result<Delivered, NotPublished> {
        let claimed = ClaimedMessage {
            content_type: adu.content_type.as_deref(),
            topic: how.topic.as_deref(),
            content: &adu.data,
        };
        let proof = self.claim.message(&claimed, proof)?;
        let publisher = how.sequence.map(|sequence| Publisher {
            name: self.owner.name.clone(),
            sequence,
        });
        let draft = Draft {
            how,
            content_type: adu.content_type,
            data: adu.data,
            proof,
            publisher,
        };
        let counts = &self.space.counts;
        counts.published.fetch_add(1, Ordering::Relaxed);
        let Some(channel) = &self.channel else {
            return self.elsewhere(draft).await;
        };

        let delivered = match channel.publish_by(&draft, self.deadline()).await {
            Ok(delivered) => delivered,
            Err(Unpublished::NoRoom(no_room)) => {
                return Err(NotPublished::NoRoom(no_room, Delivered::default()));
            }
            Err(Unpublished::Stopped | Unpublished::Gone | Unpublished::Passing) => {
                return self.elsewhere(draft).await;
            }
        };
        self.count(&delivered);
        Ok(delivered)
    }

    /// Publishes a message for which no one is here: at the relay that has taken the channel over, if there is one.
    async fn elsewhere(&self, draft: Draft) -> Result<Delivered, NotPublished> {
        match self.space.moves.going() {
            // Two relays that name each other as successor would send it to and fro for ever.
            Some(_) if self.is_forwarded => {
                let details =
                    "the relay that sent this message on is to take the channel over itself";
                Err(Refusal::new(ProxyError::ProxyLoopDetected, details).into())
            }
            Some(successor) => {
                let forwarded = forward(&successor, &self.opener, self.path, draft);
                forwarded.await.map_err(NotPublished::Refused)
            }
            None => Ok(no_receivers()),
        }
    }

    async fn piece(&self, content: &mut RequestContent) -> Result<Option<Bytes>, Refusal> {
        match content.frame().await {
            Some(Ok(Frame::Data(data))) => Ok(Some(data)),
            Some(Ok(Frame::Trailers(_))) | None => Ok(None),
            Some(Err(error)) => Err(Refusal::client_gone(error.to_string())),
        }
    }
}

/// Counts bytes that have come.
fn arrives(arrival: &mut Arrival, bytes: usize) -> Result<(), Refusal> {
    match arrival.grow(bytes) {
        true => Ok(()),
        false => {
            let details = "too many bytes of messages arrive from this user, or wait in all";
            Err(Refusal::new(ProxyError::ConnectionLimitReached, details))
        }
    }
}

fn add(total: &mut Delivered, delivered: &Delivered) {
    total.receivers = total.receivers.max(delivered.receivers);
    total.enqueued += delivered.enqueued;
    total.dropped += delivered.dropped;
    total.is_exact &= delivered.is_exact;
    total.at = delivered.at;
}

/// The counts of a message for which no one is here.
fn no_receivers() -> Delivered {
    Delivered {
        is_exact: true,
        ..Delivered::default()
    }
}

fn malformed(error: impl std::error::Error) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, error.to_string())
}
