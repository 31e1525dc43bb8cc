//! The request's content, which each copy is to have: it is kept in a store until all are sent.

use std::sync::Arc;

use hermes_admit::buffered::Stored;
use hermes_admit::routed::Routed;
use hermes_config::model::Broadcast;
use hermes_http::{Cause, Frame, Incoming, StreamError};
use hermes_net::memory::Owner;
use hermes_packet::Side;
use hermes_plug::refusal::Refusal;
use hermes_plug::{NewContent, Store, StoreError, StoreWriter};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::{REQUEST_BYTES, too_slow};

/// Why a content is not kept.
enum NotStored {
    /// It has more than this many bytes.
    TooLarge(u64),
    Stream(StreamError),
    Store(StoreError),
}

impl From<StreamError> for NotStored {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<StoreError> for NotStored {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Reads the request's content to its end into the store of the route.
///
/// # Errors
/// It is too large, breaks off, or does not come in time; or the store does not take it.
pub(super) async fn keep(
    routed: &Routed,
    rule: &Broadcast,
    content: &mut Incoming,
    until: Instant,
) -> Result<Stored, Refusal> {
    let limit = rule.request_bytes.map_or(REQUEST_BYTES, |size| size.0);
    let store = routed.route.copies.iter().find_map(|next| next.store());
    let Some(store) = store else {
        let details = "the route keeps no contents";
        return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
    };

    let mut kept = timeout_at(until, read(store, routed.owner(), content, limit))
        .await
        .map_err(|_| too_slow("the request's content did not come in time"))?
        .map_err(refusal)?;

    routed
        .exchange
        .counters()
        .from_client(kept.content.length());
    if let Some(trailers) = &mut kept.trailers {
        // Those come after everything was decided.
        routed.snapshot.strip_trailers(trailers, Side::Client);
    }
    Ok(kept)
}

async fn read(
    store: &Arc<dyn Store>,
    owner: Owner,
    content: &mut Incoming,
    limit: u64,
) -> Result<Stored, NotStored> {
    let length = content.length();
    if length.is_some_and(|length| length > limit) {
        return Err(NotStored::TooLarge(limit));
    }

    let new = NewContent {
        key: None,
        owner,
        length,
    };
    let mut writer = store.create(new).await?;
    let trailers = write(&mut *writer, content, limit).await?;
    let content = writer.finish().await?;
    Ok(Stored { content, trailers })
}

async fn write(
    writer: &mut dyn StoreWriter,
    content: &mut Incoming,
    limit: u64,
) -> Result<Option<Fields>, NotStored> {
    let mut trailers = None;
    let mut read = 0;
    while let Some(frame) = content.frame().await {
        let data = match frame? {
            Frame::Data(data) => data,
            Frame::Trailers(fields) => {
                trailers = Some(fields);
                continue;
            }
        };

        // Counted here: a content without an announced length may turn out longer than the store takes.
        read += data.len() as u64;
        if read > limit {
            return Err(NotStored::TooLarge(limit));
        }
        writer.write(data).await?;
    }
    Ok(trailers)
}

fn refusal(unkept: NotStored) -> Refusal {
    match unkept {
        NotStored::TooLarge(limit) => {
            let details = format!("the content of a broadcast may have {limit} bytes");
            Refusal::new(ProxyError::HttpRequestError, details)
                .status(StatusCode::PAYLOAD_TOO_LARGE)
        }
        NotStored::Stream(error) => {
            let status = match error.cause {
                Cause::Slow => StatusCode::REQUEST_TIMEOUT,
                _ => StatusCode::BAD_REQUEST,
            };
            Refusal::new(ProxyError::HttpRequestError, error.to_string()).status(status)
        }
        NotStored::Store(error) => {
            let kind = match error {
                StoreError::Full(_) => ProxyError::ConnectionLimitReached,
                StoreError::Failed(_) => ProxyError::ProxyInternalError,
            };
            Refusal::new(kind, error.to_string())
        }
    }
}
