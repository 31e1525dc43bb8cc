//! Partial answers, kept on their way until they make up a whole content (RFC 9111, section 3.4).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Outgoing, ResponseHead, pipe};
use hermes_net::memory::{Charge, Memory, Purpose};
use hermes_plug::Response;
use http::StatusCode;

use crate::asked::Asked;
use crate::cache_status::CacheStatus;
use crate::control::joined;
use crate::fetch::Sent;
use crate::parts::{AddedPart, PartEpoch, WholeContent};
use crate::range::ContentRange;
use crate::shared::Shared;
use crate::storage::PurgeEpoch;
use crate::stored::Stored;

/// A part that is on its way.
pub(crate) struct ArrivingPart {
    shared: Arc<Shared>,
    whole: WholeContent,
    range: ContentRange,
    /// The whole response, as it is stored once all parts are there.
    response: Arc<Stored>,
    charge: Charge,
    asked: PurgeEpoch,
    epoch: PartEpoch,
}

impl Asked {
    /// The part that this answer is, where it may be kept.
    pub(crate) fn part(&self, sent: &Sent) -> Option<ArrivingPart> {
        if sent.head.status != StatusCode::PARTIAL_CONTENT || !self.may_be_stored() {
            return None;
        }
        // Several ranges in one answer have no Content-Range of their own: they pass.
        let range = ContentRange::parse(&joined(&sent.head.fields, "content-range"))?;
        let announced = sent.content.length();
        let is_announced = announced.is_none_or(|length| length == range.length());
        if !is_announced || range.of > self.rules.object {
            return None;
        }

        let head = whole_head(&sent.head);
        let response = self.store_as(&head, sent, Some(0)).ok()?;
        let whole = WholeContent::of(&response, range.of)?;
        let account = Memory::node().owner(self.owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        // Before it comes: an answer that there is no room for passes without a copy.
        let size = usize::try_from(range.length()).ok()?;
        charge.grow_if_free(size).then(|| ArrivingPart {
            shared: self.shared.clone(),
            whole,
            range,
            response,
            charge,
            asked: sent.asked,
            epoch: sent.epoch,
        })
    }

    /// Passes a partial answer on, and keeps it as it goes.
    pub(crate) fn pass_part(
        &self,
        part: ArrivingPart,
        sent: Sent,
        status: CacheStatus,
    ) -> Response {
        let mut head = sent.head;
        status.append(&mut head.fields);
        let (outgoing, incoming) = pipe(sent.content.length());
        self.opener.spawn(part.run(sent.content, outgoing));
        Response::Stream(head, incoming)
    }
}

/// The head of the whole content that a part is of.
pub(crate) fn whole_head(part: &ResponseHead) -> ResponseHead {
    let mut head = part.clone();
    head.status = StatusCode::OK;
    head.fields.remove("content-range");
    head
}

impl ArrivingPart {
    /// Passes it on. A client that leaves leaves a part of it: nothing more is asked for.
    async fn run(self, content: Incoming, outgoing: Outgoing) {
        let mut came = BytesMut::new();
        pass(content, outgoing, &mut came).await;
        if came.len() as u64 > self.range.length() {
            // Its Content-Range lies.
            return self.shared.parts.forget(&self.response);
        }
        self.keep(&came.freeze());
    }

    fn keep(self, came: &Bytes) {
        let parts = &self.shared.parts;
        let added = parts.add(&self.whole, self.range.first, came, self.epoch);
        // Their memory is charged where they are now.
        drop(self.charge);
        if let AddedPart::Whole(content) = added {
            self.shared.complete(&self.response, content, self.asked);
        }
    }
}

/// Passes a content on as long as both sides go on, with a copy of all that comes.
async fn pass(mut content: Incoming, mut outgoing: Outgoing, came: &mut BytesMut) {
    while let Some(frame) = content.frame().await {
        match frame {
            Ok(Frame::Data(bytes)) => {
                came.extend_from_slice(&bytes);
                if outgoing.data(bytes, false).await.is_err() {
                    return;
                }
            }
            // A client that is gone needs no end.
            Ok(Frame::Trailers(trailers)) => {
                let _ = outgoing.finish(Some(trailers)).await;
                return;
            }
            Err(_) => return,
        }
    }
    let _ = outgoing.finish(None).await;
}

impl Shared {
    /// Stores a response whose content is whole now.
    pub(crate) fn complete(&self, response: &Stored, content: Bytes, asked: PurgeEpoch) {
        let Some(stored) = response.with_content(content) else {
            return;
        };
        if self.storage.insert(&stored, asked) {
            self.keep(&stored);
        }
    }

    /// Keeps the part of a whole answer that came before it broke off; all of it, if the rest was here.
    pub(crate) fn keep_beginning(&self, broken: &Stored, epoch: PartEpoch) -> Option<Bytes> {
        let whole = WholeContent::of(broken, broken.length?)?;
        let came = broken.body.beginning()?;
        match self.parts.add(&whole, 0, &came, epoch) {
            AddedPart::Whole(content) => Some(content),
            AddedPart::Partial => None,
        }
    }
}
