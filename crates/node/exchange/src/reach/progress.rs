//! Interim responses for a client that waits for long, if it asks for them.

use std::time::Duration;

use hermes_http::{RequestHead, Responder, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_plug::{HandlerRequest, Handling, Response, Waits};
use hermes_proto::proxy_status::{self, PROXY_STATUS};
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, sleep};

/// Asks with `?1` for interim responses that say what the answer waits for, at most one a second.
const PROGRESS: HeaderName = HeaderName::from_static("hermes-progress");

/// Shortest time between two interim responses.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// Longest time between two while the answer waits for the same: who hears nothing for long gives up.
const LONGEST: Duration = Duration::from_secs(15);

/// Whether the client asks for progress.
pub(crate) fn is_asked(head: &RequestHead) -> bool {
    head.fields.get(PROGRESS).is_some_and(|asks| asks == "?1")
}

/// Tells the client. One that is gone is noticed elsewhere.
pub(crate) async fn tell(status: HeaderValue, responder: &mut Responder) {
    let mut progress = ResponseHead::new(StatusCode::PROCESSING);
    progress.fields.insert(PROXY_STATUS, status);
    let _ = responder.interim(&progress).await;
}

/// The interim responses for the client of a handler.
pub(crate) struct AnswerProgress {
    /// Nothing, if it did not ask.
    waits: Option<Waits>,
    told: Option<(Instant, String)>,
}

impl AnswerProgress {
    /// For this request.
    pub(crate) fn of(asked: &HandlerRequest) -> Self {
        let waits = is_asked(&asked.head).then(|| asked.waits.clone());
        Self { waits, told: None }
    }

    /// Waits for the answer, and tells the client meanwhile.
    pub(crate) async fn until(
        mut self,
        mut answer: Handling<'_>,
        responder: &mut Responder,
    ) -> Result<Response, Refusal> {
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                () = responder.gone() => {
                    return Err(Refusal::client_gone("before the handler's answer"));
                }
                () = sleep(SHORTEST), if self.waits.is_some() => {}
            }
            if let Some(status) = self.due() {
                tell(status, responder).await;
            }
        }
    }

    /// The next one, if it is due.
    fn due(&mut self) -> Option<HeaderValue> {
        let waits = self.waits.as_ref()?;
        let said = waits.said()?;
        let is_known = self
            .told
            .as_ref()
            .is_some_and(|(at, told)| *told == said && at.elapsed() < LONGEST);
        if is_known {
            return None;
        }

        let status = proxy_status::waits(waits.node(), &said);
        self.told = Some((Instant::now(), said));
        Some(status)
    }
}
