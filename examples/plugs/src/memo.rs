//! A handler that stands between requests and their next hop: it keeps small answers, and gives them again.
//!
//! It is no cache (RFC 9111): what it keeps neither ages nor varies.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, ResponseHead, StreamError};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Response};
use hermes_proto::proxy_status::ProxyError;
use http::header::{AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;

/// Answers that are kept; further ones pass.
#[doc(alias = "bound")]
const ANSWERS: usize = 64;

/// Bytes of content of an answer that is kept.
#[doc(alias = "bound")]
const LARGEST: u64 = 64 * 1024;

/// The field of an answer that was kept.
const KEPT: HeaderName = HeaderName::from_static("memo");

/// Keeps answers to GET that say `Cache-Control: public`, by target and path.
#[derive(Default)]
pub struct Memo {
    answers: Mutex<HashMap<String, (ResponseHead, Bytes)>>,
}

impl Memo {
    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            content,
            target,
            onward,
            ..
        } = request;
        let onward = onward.ok_or_else(|| {
            Refusal::new(
                ProxyError::ProxyConfigurationError,
                "memo is for `through` of a route",
            )
        })?;
        let is_asked_by_all =
            head.method == Method::GET && !head.fields.contains_key(AUTHORIZATION);
        let key = is_asked_by_all.then(|| target.with_path(head.path()));
        if let Some((mut head, content)) = key.as_ref().and_then(|key| self.find(key)) {
            head.fields.insert(KEPT, HeaderValue::from_static("kept"));
            return Ok(Response::Whole(head, content));
        }

        let (head, content) = onward.send(head, content.into_incoming()).await?;
        match key.filter(|_| may_keep(&head, &content)) {
            Some(key) => self.keep(key, head, content).await,
            None => Ok(Response::Stream(head, content)),
        }
    }

    fn find(&self, key: &str) -> Option<(ResponseHead, Bytes)> {
        self.answers.lock().get(key).cloned()
    }

    async fn keep(
        &self,
        key: String,
        head: ResponseHead,
        content: Incoming,
    ) -> Result<Response, Refusal> {
        let content = whole(content).await;
        let content = content.map_err(|error| Refusal::of_stream(&error, ""))?;
        let mut answers = self.answers.lock();
        if answers.len() < ANSWERS {
            answers.insert(key, (head.clone(), content.clone()));
        }
        Ok(Response::Whole(head, content))
    }
}

/// Whether an answer is for everyone, whole and small.
fn may_keep(head: &ResponseHead, content: &Incoming) -> bool {
    let is_public = head
        .fields
        .get(CACHE_CONTROL)
        .is_some_and(|control| control == "public");
    let is_small = content.length().is_some_and(|length| length <= LARGEST);
    head.status == StatusCode::OK && is_public && is_small
}

async fn whole(mut content: Incoming) -> Result<Bytes, StreamError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = content.frame().await {
        if let Frame::Data(data) = frame? {
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

impl Handler for Memo {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }
}
