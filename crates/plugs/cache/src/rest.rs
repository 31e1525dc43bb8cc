//! A whole content of which the beginning is here: the next hop is asked for the rest alone (RFC 9111, section 3.4).
//!
//! `If-Range` has the strong entity tag of the beginning (RFC 9110, section 13.1.5), so that an origin with another content sends all of it.

use bytes::Bytes;
use hermes_http::{Incoming, Outgoing, RequestHead, pipe};
use hermes_plug::Response;
use hermes_plug::refusal::Refusal;
use http::{HeaderValue, StatusCode, header};

use crate::asked::Asked;
use crate::body::forward;
use crate::cache_status::Forwarded;
use crate::collect_part::whole_head;
use crate::control::joined;
use crate::fetch::Sent;
use crate::flights::Lead;
use crate::parts::{Beginning, PartAsked};
use crate::precondition;
use crate::range::ContentRange;

impl Asked {
    /// Asks the next hop for what is not stored: for the rest where the beginning is here, else for all of it.
    pub(crate) async fn fetch_new(&self, lead: Option<Lead>) -> Result<Response, Refusal> {
        if let Some(beginning) = self.beginning() {
            let sent = self.send(rest_of(&self.head, &beginning)).await?;
            match self.with_beginning(sent, beginning) {
                Continued::Whole(sent) => {
                    return Ok(self.take(*sent, Forwarded::Partial, lead));
                }
                // It has no part, as for any request.
                Continued::Other(sent) => return Ok(self.take(*sent, Forwarded::Miss, lead)),
                Continued::Never => {}
            }
        }
        let sent = self.send(self.head.clone()).await?;
        Ok(self.take(sent, Forwarded::Miss, lead))
    }

    /// The beginning of the content, if this request asks for all of it.
    fn beginning(&self) -> Option<Beginning> {
        let is_whole = self.may_be_stored() && !precondition::has_any(&self.head.fields);
        let asked = PartAsked {
            name: &self.name,
            user: self.user.as_ref(),
            owner: &self.owner,
            fields: &self.head.fields,
            keyed: &self.keyed,
        };
        self.shared.parts.beginning(&asked).filter(|_| is_whole)
    }

    /// The whole answer, of a beginning and the rest of the same content.
    fn with_beginning(&self, sent: Sent, beginning: Beginning) -> Continued {
        let status = sent.head.status;
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Continued::Never;
        }
        if status != StatusCode::PARTIAL_CONTENT {
            return Continued::Other(Box::new(sent));
        }
        let range = ContentRange::parse(&joined(&sent.head.fields, "content-range"));
        let is_rest = range.is_some_and(|range| {
            range.first == beginning.length()
                && range.of == beginning.of
                && range.length() == beginning.of - range.first
        });
        // A part of another content, or another part: no answer to a request for all of it.
        if !is_rest || joined(&sent.head.fields, "etag") != beginning.tag {
            return Continued::Never;
        }

        let mut head = whole_head(&sent.head);
        let length = HeaderValue::from(beginning.of);
        head.fields.insert(header::CONTENT_LENGTH, length);
        let (outgoing, incoming) = pipe(Some(beginning.of));
        let pieces = beginning.pieces;
        self.opener.spawn(join(pieces, sent.content, outgoing));
        Continued::Whole(Box::new(Sent {
            head,
            content: incoming,
            ..sent
        }))
    }
}

/// The answer to a request for the rest of a content.
enum Continued {
    /// The rest, with the beginning before it.
    Whole(Box<Sent>),
    /// It is an answer to any request for this resource.
    Other(Box<Sent>),
    /// It is none to a request for all of it.
    Never,
}

/// A request for the rest of a content. Without a condition that the origin can read, it is one for all of it.
fn rest_of(head: &RequestHead, beginning: &Beginning) -> RequestHead {
    let mut request = head.clone();
    let range = format!("bytes={}-", beginning.length());
    if let (Ok(range), Ok(tag)) = (
        HeaderValue::try_from(range),
        HeaderValue::from_str(&beginning.tag),
    ) {
        request.fields.insert(header::RANGE, range);
        request.fields.insert(header::IF_RANGE, tag);
    }
    request
}

/// Passes on pieces, and a content behind them.
async fn join(pieces: Vec<Bytes>, rest: Incoming, mut outgoing: Outgoing) {
    for piece in pieces {
        if outgoing.data(piece, false).await.is_err() {
            return;
        }
    }
    forward(rest, outgoing).await;
}
