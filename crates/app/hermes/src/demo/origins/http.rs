//! An HTTP server that tells what it was asked: its answer is the request's head as JSON.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::commands::echo::joined;

/// Serves one connection. `name` is the server's own name.
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
        "fields": joined(request.headers()),
    });

    let mut response = Response::new(Full::from(format!("{seen:#}\n")));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );

    response
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn lines_of_one_name_are_joined() {
        let mut map = HeaderMap::new();
        for value in ["1.1 alice", "2 ingress"] {
            map.append("via", value.parse().unwrap());
        }
        assert_eq!(joined(&map)["via"], "1.1 alice, 2 ingress");
    }
}
