//! An HTTP server that tells what it was asked: its answer is the request's head as JSON.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves one connection. `name` is what the server calls itself.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, name: &'static str) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(name, &request)) });
    // A client that breaks off has its answer, or does not want it.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

fn answer(name: &str, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let seen = json!({
        "origin": name,
        "method": request.method().as_str(),
        "uri": request.uri().to_string(),
        "fields": fields(request.headers()),
    });
    let mut response = Response::new(Full::from(format!("{seen:#}\n")));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

/// Fields by name; several lines of one name are joined, as RFC 9110, 5.3 allows.
fn fields(fields: &HeaderMap) -> Map<String, Value> {
    let joined = |name| {
        let lines: Vec<_> = fields
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        Value::String(lines.join(", "))
    };
    fields
        .keys()
        .map(|name| (name.to_string(), joined(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_name_are_joined() {
        let mut map = HeaderMap::new();
        for value in ["1.1 alice", "2 ingress"] {
            map.append("via", value.parse().unwrap());
        }
        assert_eq!(fields(&map)["via"], "1.1 alice, 2 ingress");
    }
}
