//! Requests of another relay, whose channels this one takes over.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hermes_http::ResponseHead;
use hermes_plug::Response;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::{Move, SUBSCRIBE};
use http::{StatusCode, header};

use super::subscribe::{full, subscribed};
use super::{Asked, Relay, malformed, set};
use crate::moves::{Grant, HOLDS};
use crate::space::Asking;

impl Relay {
    /// Holds subscriptions for subscribers who are told their names by the other relay, and come within `grace`.
    pub(crate) fn hold(&self, asked: &Asked) -> Result<Response, Refusal> {
        let wish = Move::read(&asked.request.head.fields);
        let wish = wish.map_err(|error| malformed(&error))?;
        let wish = wish.ok_or_else(|| {
            let details = "`hold` of hermes-move must be a number";
            Refusal::new(ProxyError::HttpRequestError, details)
        })?;
        let key = self.space.moves.key().ok_or_else(|| {
            denied("this relay takes no channels over: `plugs: { relay: { key_file } }` is not set")
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let grant = Grant {
            channel: &asked.key,
            at: wish.at,
        };
        if !key.is_good(&wish.grant, &grant, now) {
            return Err(denied(
                "the grant is of another key, for another channel, or too old",
            ));
        }

        let now = Instant::now();
        let asking = Asking {
            begins: Some(wish.at),
            ..asked.asking()
        };
        let most = usize::try_from(wish.hold).unwrap_or(HOLDS).min(HOLDS);
        let mut names = String::new();
        let mut head = ResponseHead::new(StatusCode::OK);
        for _ in 0..most {
            let expires = now + asked.rules.timeout;
            let begun = match self.space.subscribe(&asking, expires, now) {
                Ok(begun) => begun,
                // Those that there is no room for hear of the gap.
                Err(refusal) if names.is_empty() => return Err(full(refusal)),
                Err(_) => break,
            };
            // It waits for its first stream as for one that broke off.
            begun.detach(0, now);
            if let Some(value) = subscribed(&begun, asked.rules.timeout, true)
                && let Some(value) = value.value()
            {
                head.fields.insert(SUBSCRIBE, value);
            }
            names.push_str(&begun.id);
            names.push('\n');
        }
        set(&mut head.fields, header::CACHE_CONTROL, "no-store");
        set(&mut head.fields, header::CONTENT_TYPE, "text/plain");
        Ok(Response::Whole(head, names.into()))
    }
}

fn denied(details: &str) -> Refusal {
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::FORBIDDEN)
}
