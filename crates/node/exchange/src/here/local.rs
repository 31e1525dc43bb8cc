//! Answers that a route gives here.

use bytes::Bytes;
use hermes_admit::alternative;
use hermes_admit::routed::Routed;
use hermes_config::model::{Redirect, Respond, Template, TemplatePart, Variable};
use hermes_http::{Kind, ResponseHead};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::names::LOCATION;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::{Values, render};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::failed::Failed;

/// Answers as the route says.
pub(crate) async fn respond(
    routed: &Routed,
    arrival: Arrival,
    respond: &Respond,
) -> Result<String, Failed> {
    let mut head =
        ResponseHead::new(StatusCode::from_u16(respond.status).unwrap_or(StatusCode::OK));
    if head.status.is_success() && arrival.kind() != Kind::Message {
        let refusal = Refusal::new(
            ProxyError::ProxyConfigurationError,
            "a tunnel cannot be answered with success",
        );
        return Err(Failed::untouched(arrival, refusal));
    }

    for (name, value) in &respond.fields {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            head.fields.append(name, value);
        }
    }

    Ok(answer(
        routed,
        arrival,
        head,
        Bytes::from(respond.body.clone()),
        "responded",
    )
    .await)
}

/// Sends the client elsewhere.
pub(crate) async fn redirect(
    routed: &Routed,
    arrival: Arrival,
    redirect: &Redirect,
) -> Result<String, Failed> {
    let asked = arrival.head().path.clone();
    let method = arrival.head().method.clone();
    let values = Values {
        path: asked.as_ref().map_or("", PathAndQuery::path),
        query: asked.as_ref().and_then(PathAndQuery::query),
        method: method.as_str(),
        ..routed.values(&routed.target)
    };

    let location = location(&redirect.location, &values);
    let Ok(location) = HeaderValue::from_str(&location) else {
        let refusal = Refusal::new(
            ProxyError::ProxyConfigurationError,
            "the location cannot be sent",
        );
        return Err(Failed::untouched(arrival, refusal));
    };

    let status = redirect
        .status
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::FOUND);
    let mut head = ResponseHead::new(status);
    head.fields.insert(LOCATION, location);

    Ok(answer(routed, arrival, head, Bytes::new(), "redirected").await)
}

/// Where a template sends the client. A location that ends with the path of the request goes on with its query.
fn location(template: &Template, values: &Values<'_>) -> String {
    let mut location = render(template, values);
    let ends_with_path = template.parts.last() == Some(&TemplatePart::Variable(Variable::Path));
    if let (true, Some(query)) = (ends_with_path, values.query) {
        location.push('?');
        location.push_str(query);
    }
    location
}

async fn answer(
    routed: &Routed,
    mut arrival: Arrival,
    mut head: ResponseHead,
    content: Bytes,
    reason: &str,
) -> String {
    arrival.settle().await;
    alternative::advertise(routed, &mut head.fields);
    routed.exchange.status(head.status.as_u16());
    match arrival.answer(head, content).await {
        Ok(()) => reason.to_owned(),
        Err(error) => format!("client_closed: {error}"),
    }
}
