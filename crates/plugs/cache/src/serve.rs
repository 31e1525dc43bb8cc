//! Stored responses as answers: as they are, not modified, or in part (RFC 9111, sections 4, 4.3.2 and 3.3).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hermes_http::{Incoming, ResponseHead, pipe};
use hermes_plug::Response;
use http::{HeaderValue, Method, StatusCode};

use crate::asked::Asked;
use crate::cache_status::{CacheStatus, Forwarded};
use crate::precondition;
use crate::range::{Part, part};
use crate::stored::Stored;

/// Fields of a stored response that describe its content: a 304 has no content.
const OF_CONTENT: &[&str] = &[
    "content-encoding",
    "content-language",
    "content-type",
    "content-range",
];

impl Asked {
    /// A stored response, as it is.
    pub(crate) fn hit(&self, stored: &Arc<Stored>) -> Response {
        self.shared.counts.hit();
        let status = CacheStatus {
            ttl: Some(stored.ttl(stored.age(Instant::now()))),
            collapsed: self.collapsed,
            ..CacheStatus::default()
        };
        self.serve(stored, status)
    }

    /// A stale response, because the next hop fails.
    pub(crate) fn hit_despite(&self, stored: &Arc<Stored>) -> Option<Response> {
        let age = stored.age(Instant::now());
        let may = stored.is_there() && stored.freshness.serves_errors(age);
        may.then(|| {
            self.shared.counts.stale();
            let status = CacheStatus {
                forwarded: Some(Forwarded::Stale),
                ttl: Some(stored.ttl(age)),
                collapsed: self.collapsed,
                detail: Some("the next hop failed"),
                ..CacheStatus::default()
            };
            self.serve(stored, status)
        })
    }

    /// A stored response as this request asks for it: not modified, in part, or as a whole.
    pub(crate) fn serve(&self, stored: &Arc<Stored>, status: CacheStatus) -> Response {
        let mut head = stored.head.clone();
        let age = stored.age(Instant::now());
        // Section 4: a response that is given without validation says its age.
        head.fields.insert("age", HeaderValue::from(age));
        status.append(&mut head.fields);
        if stored.head.status != StatusCode::OK {
            return self.give(stored, head, 0, stored.length);
        }
        if precondition::is_not_modified(&self.head.fields, &stored.head.fields) {
            head.status = StatusCode::NOT_MODIFIED;
            head.fields
                .retain(|name| !OF_CONTENT.contains(&name.as_str()));
            return Response::Stream(head, Incoming::Empty);
        }

        let Some(length) = stored.length.filter(|_| self.head.method == Method::GET) else {
            return self.give(stored, head, 0, stored.length);
        };
        match part(&self.head.fields, &stored.head.fields, length) {
            Part::Whole => self.give(stored, head, 0, Some(length)),
            Part::Bytes(bytes) => {
                head.status = StatusCode::PARTIAL_CONTENT;
                let last = bytes.end - 1;
                content_range(&mut head, &format!("bytes {}-{last}/{length}", bytes.start));
                self.give(stored, head, bytes.start, Some(bytes.end))
            }
            Part::Unsatisfiable => {
                head.status = StatusCode::RANGE_NOT_SATISFIABLE;
                content_range(&mut head, &format!("bytes */{length}"));
                Response::Whole(head, Bytes::new())
            }
        }
    }

    /// The bytes of a stored content between two places: at once where all of it is there, else as it comes.
    pub(crate) fn give(
        &self,
        stored: &Arc<Stored>,
        head: ResponseHead,
        from: u64,
        to: Option<u64>,
    ) -> Response {
        if let (Some(whole), Some(to)) = (stored.body.whole(), to) {
            let within = |at: u64| usize::try_from(at).unwrap_or(whole.len()).min(whole.len());
            return Response::Whole(head, whole.slice(within(from)..within(to)));
        }
        let (outgoing, incoming) = pipe(to.map(|to| to - from));
        let body = stored.body.clone();
        let opened = self.opened.clone();
        self.opener
            .spawn(async move { body.send(from, to, opened, outgoing).await });
        Response::Stream(head, incoming)
    }
}

fn content_range(head: &mut ResponseHead, range: &str) {
    if let Ok(range) = HeaderValue::try_from(range) {
        head.fields.insert("content-range", range);
    }
}
