//! Requests to the nodes at other places.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, RequestHead, pipe};
use hermes_plug::Opener;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use http::header::CONTENT_TYPE;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, StatusCode, Version};
use serde_json::Value;

use crate::answer::No;

/// Time for an answer of another place.
#[doc(alias = "bound")]
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Bytes of an answer that are read: its error is shown.
#[doc(alias = "bound")]
const ANSWER_BYTES: usize = 4096;

/// A request to another place.
pub(crate) struct PartnerCall {
    pub(crate) method: Method,
    pub(crate) authority: Authority,
    /// The name of the path.
    pub(crate) name: String,
    pub(crate) content: Bytes,
    /// Who asked here.
    pub(crate) user: String,
}

/// Asks another place, in the name of the user who asked here, by a route of this node.
///
/// # Errors
/// It cannot be reached, or did not grant it: in words, with the status for the one who asked here.
pub(crate) async fn ask(opener: &Opener, place: &str, call: PartnerCall) -> Result<(), No> {
    let asked = tokio::time::timeout(ANSWER_TIME, send(opener, call)).await;
    let failed = |reason: String| {
        let remedy = "see the log of that node, and the routes to it";
        No::new(
            StatusCode::BAD_GATEWAY,
            format!("{place}: {reason}"),
            remedy,
        )
    };
    match asked {
        Err(_) => Err(failed(format!(
            "no answer within {} s",
            ANSWER_TIME.as_secs()
        ))),
        Ok(Err(refusal)) => Err(failed(refusal.reason())),
        Ok(Ok(answer)) if answer.status.is_success() => match answer.place.as_deref() {
            Some(answered) if answered == place => Ok(()),
            // A route that leads elsewhere, such as back to this node, must not count as consent.
            _ => Err(failed("another node has answered".to_owned())),
        },
        Ok(Ok(answer)) => {
            // A refusal of the other domain is one for the user; all else is a fault between the nodes.
            let status = match answer.status {
                status @ (StatusCode::FORBIDDEN
                | StatusCode::CONFLICT
                | StatusCode::TOO_MANY_REQUESTS) => status,
                _ => StatusCode::BAD_GATEWAY,
            };
            let reason = format!(
                "{place} answers {}: {}",
                answer.status.as_u16(),
                answer.error
            );
            Err(No::new(
                status,
                reason,
                "ask the organisation of that place",
            ))
        }
    }
}

struct PartnerAnswer {
    status: StatusCode,
    /// The place that it names itself.
    place: Option<String>,
    error: String,
}

async fn send(opener: &Opener, call: PartnerCall) -> Result<PartnerAnswer, Refusal> {
    let head = RequestHead {
        method: call.method,
        scheme: Some(Scheme::HTTP),
        authority: Some(call.authority),
        path: format!("/areas/v1/parts/{}", call.name)
            .parse::<PathAndQuery>()
            .ok(),
        protocol: None,
        fields: fields(&call.user),
        version: Version::HTTP_11,
        origin_form: false,
    };
    let (mut outgoing, incoming) = pipe(Some(call.content.len() as u64));
    opener.spawn(async move {
        // A node that answers before it has read everything has said why.
        drop(outgoing.data(call.content, true).await);
    });
    let (head, content) = opener.open(head, incoming).await?;
    Ok(PartnerAnswer::of(head.status, &beginning(content).await))
}

/// The user goes along as in any exchange of the overlay: the other node believes it if it believes this node.
fn fields(user: &str) -> Fields {
    let mut fields = Fields::default();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(user) = HeaderValue::from_str(user) {
        fields.insert(HeaderName::from_static("user"), user);
    }
    fields
}

impl PartnerAnswer {
    fn of(status: StatusCode, content: &[u8]) -> Self {
        let json = serde_json::from_slice::<Value>(content).unwrap_or_default();
        let text = |key: &str| Some(json.get(key)?.as_str()?.to_owned());
        Self {
            status,
            place: text("place"),
            error: text("error").unwrap_or_else(|| {
                let text = String::from_utf8_lossy(content);
                text.lines()
                    .next()
                    .unwrap_or_default()
                    .escape_debug()
                    .to_string()
            }),
        }
    }
}

/// The first bytes of an answer.
async fn beginning(mut content: Incoming) -> BytesMut {
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = content.frame().await {
        if let Frame::Data(data) = frame {
            read.extend_from_slice(&data[..data.len().min(ANSWER_BYTES - read.len())]);
        }
        if read.len() == ANSWER_BYTES {
            break;
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_its_place_and_its_error_is_shown_without_commands() {
        let answer = PartnerAnswer::of(
            StatusCode::OK,
            b"{\"place\": \"umc\", \"state\": \"ready\"}",
        );
        assert_eq!(answer.place.as_deref(), Some("umc"));
        let answer = PartnerAnswer::of(StatusCode::BAD_GATEWAY, b"\x1b[2Jgone\nmore");
        assert_eq!(
            (answer.place, answer.error.as_str()),
            (None, "\\u{1b}[2Jgone")
        );
    }
}
