//! Requests to the successor: to hold subscriptions, and to publish.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, RequestHead};
use hermes_plug::Opener;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::{
    DELIVERED, Delivered, FORWARDED, MOVE, Move, PUBLISH, Subscribed,
};
use hermes_proto::relay::{Adu, MEDIA_TYPE, Position, RelayFrame};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, StatusCode, Version, header};
use tokio::time::timeout;

use super::moving::Moving;
use super::{Grant, Successor};
use crate::channel::Draft;
use crate::moved::HeldSubscription;
use crate::subscription::Subscription;

/// Subscriptions that one request may ask to hold.
#[doc(alias = "bound")]
pub(crate) const HOLDS: usize = 500;

/// Bytes of an answer that are read: the names of that many.
#[doc(alias = "bound")]
const MAX_ANSWER: usize = HOLDS * 64;

/// How long the successor may take to answer.
const ANSWER: Duration = Duration::from_secs(4);

/// Subscriptions of one worker that are to be held at the successor.
pub(crate) struct HoldOrder {
    pub(crate) moving: Arc<Moving>,
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
}

impl HoldOrder {
    /// Begins with it on this worker.
    pub(crate) fn begin(self) {
        let mut all = self.subscriptions.iter();
        let opener = all.find_map(|subscription| subscription.opener.lock().clone());
        match opener {
            Some(opener) => opener.spawn(self.run()),
            None => {
                let reason = "its subscribers came before there was a successor";
                self.moving.refused(reason.to_owned());
                self.moving.done();
            }
        }
    }

    /// Has them held, in the name of the user of each.
    async fn run(self) {
        let mut by_user: Vec<Vec<Arc<Subscription>>> = Vec::new();
        let mut sorted = self.subscriptions;
        sorted.sort_by(|one, other| one.user.cmp(&other.user));
        for subscription in sorted {
            match by_user.last_mut() {
                Some(group) if group[0].user == subscription.user && group.len() < HOLDS => {
                    group.push(subscription);
                }
                _ => by_user.push(vec![subscription]),
            }
        }
        for group in by_user {
            let held = timeout(ANSWER, held(&self.moving, &group)).await;
            match held.unwrap_or_else(|_| Err("it did not answer in time".to_owned())) {
                Ok(names) => self.moving.held(group.into_iter().zip(names)),
                Err(reason) => self.moving.refused(reason),
            }
        }
        self.moving.done();
    }
}

/// Has subscriptions of one user held; their names there.
async fn held(
    moving: &Moving,
    group: &[Arc<Subscription>],
) -> Result<Vec<HeldSubscription>, String> {
    let openers = group.iter();
    let mut openers = openers.filter_map(|subscription| subscription.opener.lock().clone());
    let opener = openers.next().ok_or("no way there is left")?;
    let successor = &moving.successor;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let grant = Grant {
        channel: &format!("{}{}", successor.authority, moving.path),
        at: moving.at,
    };
    let wish = Move {
        hold: group.len() as u64,
        at: moving.at,
        grant: successor.key.make(&grant, now),
    };

    let mut head = request(successor, &moving.path).ok_or("its address cannot be written")?;
    if let Some(value) = wish.value() {
        head.fields.insert(MOVE, value);
    }
    head.fields
        .insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    let answered = opener.open(head, Incoming::Empty).await;
    let (head, content) = answered.map_err(|refusal| refusal.reason())?;
    let text = whole(content).await;
    if head.status != StatusCode::OK {
        return Err(format!("it answered {}: {}", head.status, text.trim()));
    }
    let subscribed = Subscribed::read(&head.fields).ok().flatten();
    let at: Position = subscribed.ok_or("it is no relay")?.at;
    let names = text
        .lines()
        .map(|id| HeldSubscription { id: id.into(), at });
    Ok(names.collect())
}

/// Publishes a message there, in the name of the one who has sent it here.
///
/// # Errors
/// It cannot be reached, or refuses.
pub(crate) async fn forward(
    successor: &Successor,
    opener: &Opener,
    path: &str,
    draft: Draft,
) -> Result<Delivered, Refusal> {
    let unwritable = || {
        Refusal::new(
            ProxyError::ProxyInternalError,
            "a message cannot be sent on",
        )
    };
    let mut head = request(successor, path).ok_or_else(unwritable)?;
    head.fields
        .insert(FORWARDED, HeaderValue::from_static("?1"));
    if let Some(value) = draft.how.value() {
        head.fields.insert(PUBLISH, value);
    }
    let (kind, data) = match draft.proof {
        Some(_) => (
            Some(Bytes::from_static(MEDIA_TYPE.as_bytes())),
            with_proof(draft),
        ),
        None => (draft.content_type, draft.data),
    };
    if let Some(Ok(kind)) = kind.map(|kind| HeaderValue::from_bytes(&kind)) {
        head.fields.insert(header::CONTENT_TYPE, kind);
    }
    let length = HeaderValue::from(data.len() as u64);
    head.fields.insert(header::CONTENT_LENGTH, length);
    let (head, content) = opener.open(head, Incoming::Full(Some(data))).await?;
    // Read to its end, so that its connection is free again.
    let text = whole(content).await;
    let has_counts = head.fields.get(DELIVERED).is_some();
    match Delivered::read(&head.fields) {
        Ok(Some(delivered)) if has_counts && head.status == StatusCode::OK => Ok(delivered),
        _ => {
            let details = format!(
                "the relay that has taken this channel over: {}: {}",
                head.status,
                text.trim()
            );
            Err(Refusal::new(ProxyError::HttpRequestError, details).status(head.status))
        }
    }
}

/// A message whose proof goes along: it is the sender's, not this relay's.
fn with_proof(draft: Draft) -> Bytes {
    let adu = Adu {
        sequence: draft.how.sequence.unwrap_or_default(),
        content_type: draft.content_type,
        topic: draft.how.topic.map(Bytes::from),
        is_reliable: false,
        proof: draft.proof,
        data: draft.data,
    };
    let mut written = BytesMut::new();
    RelayFrame::Adu(adu).encode(&mut written);
    written.freeze()
}

fn request(successor: &Successor, path: &str) -> Option<RequestHead> {
    let authority = Authority::try_from(successor.authority.as_str()).ok()?;
    let mut fields = Fields::new();
    // The answer of a proxy in between, if it cannot be reached, is not to be a page.
    fields.insert(
        HeaderName::from_static("accept"),
        HeaderValue::from_static("*/*"),
    );
    Some(RequestHead {
        method: Method::POST,
        scheme: Some(Scheme::HTTP),
        authority: Some(authority),
        path: Some(PathAndQuery::try_from(path).ok()?),
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: false,
    })
}

async fn whole(mut content: Incoming) -> String {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| content.poll_frame(cx)).await {
        let Frame::Data(data) = frame else {
            break;
        };
        let data: Bytes = data;
        let room = MAX_ANSWER - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if read.len() == MAX_ANSWER {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}
