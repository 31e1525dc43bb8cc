//! An HTTP server that answers with the request itself.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

use crate::output::Output;

/// Serves one connection, over HTTP/1.1 or HTTP/2.
pub async fn serve(stream: TcpStream, from: SocketAddr, output: Output) {
    let service = service_fn(move |request| async move {
        Ok::<_, Infallible>(answer(request, from, output).await)
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // A client that breaks off has its answer, or does not want it.
    drop(server.serve_connection(TokioIo::new(stream), service).await);
}

/// A request, read to its end.
struct Seen {
    line: String,
    head: http::request::Parts,
    from: SocketAddr,
    /// Bytes of its content; `None` where it broke off.
    content: Option<u64>,
    trailers: HeaderMap,
}

async fn answer(
    request: Request<Incoming>,
    from: SocketAddr,
    output: Output,
) -> Response<Full<Bytes>> {
    let (head, content) = request.into_parts();
    let line = format!("{} {} {:?}", head.method, head.uri, head.version);
    output.line(format_args!("{from} {line}"));

    let (content, trailers) = read(content).await;
    let seen = Seen {
        line,
        head,
        from,
        content,
        trailers,
    };

    let (kind, text) = if seen.wants_json() {
        ("application/json", seen.json())
    } else {
        ("text/plain; charset=utf-8", seen.text())
    };

    let mut response = Response::new(Full::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Counts the bytes of the content without keeping them.
async fn read(mut content: Incoming) -> (Option<u64>, HeaderMap) {
    let mut length = 0;
    let mut trailers = HeaderMap::new();
    while let Some(frame) = content.frame().await {
        let Ok(frame) = frame else {
            return (None, trailers);
        };
        length += frame.data_ref().map_or(0, Bytes::len) as u64;
        trailers.extend(frame.into_trailers().unwrap_or_default());
    }

    (Some(length), trailers)
}

impl Seen {
    fn wants_json(&self) -> bool {
        let mut values = self.head.headers.get_all(header::ACCEPT).iter();
        values.any(|value| {
            value
                .to_str()
                .is_ok_and(|value| value.contains("application/json"))
        })
    }

    /// As it came: a line, the fields, how much content, and trailers.
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.line);
        write_fields(&self.head.headers, &mut text);
        let content = match self.content {
            Some(0) if self.trailers.is_empty() => return text,
            Some(length) => format!("{length} bytes of content"),
            None => "the content broke off".to_owned(),
        };

        // Writing to a string does not fail.
        let _ = write!(text, "\n({content})\n");
        write_fields(&self.trailers, &mut text);
        text
    }

    fn json(&self) -> String {
        let seen = json!({
            "method": self.head.method.as_str(),
            "target": self.head.uri.to_string(),
            "version": format!("{:?}", self.head.version),
            "from": self.from.to_string(),
            "fields": joined(&self.head.headers),
            "content_bytes": self.content,
            "trailers": joined(&self.trailers),
        });
        format!("{seen:#}\n")
    }
}

fn write_fields(fields: &HeaderMap, text: &mut String) {
    for (name, value) in fields {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
}

/// Fields by name; several lines of one name are joined, as RFC 9110, 5.3 allows.
pub fn joined(fields: &HeaderMap) -> Map<String, Value> {
    let lines = |name| {
        let lines: Vec<_> = fields
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        Value::String(lines.join(", "))
    };
    fields
        .keys()
        .map(|name| (name.to_string(), lines(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(accept: &str, content: Option<u64>) -> Seen {
        let request = Request::post("/hello?x=1")
            .header("via", "1.1 a")
            .header("via", "2 b")
            .header("accept", accept);
        let head = request.body(()).unwrap().into_parts().0;
        let from = SocketAddr::from(([127, 0, 0, 1], 4));
        Seen {
            line: "POST /hello?x=1 HTTP/1.1".into(),
            head,
            from,
            content,
            trailers: HeaderMap::new(),
        }
    }

    #[test]
    fn text_is_the_request_as_it_came() {
        let head = "POST /hello?x=1 HTTP/1.1\nvia: 1.1 a\nvia: 2 b\naccept: */*\n";
        assert_eq!(seen("*/*", Some(0)).text(), head);
        assert_eq!(
            seen("*/*", Some(12)).text(),
            format!("{head}\n(12 bytes of content)\n")
        );
        assert_eq!(
            seen("*/*", None).text(),
            format!("{head}\n(the content broke off)\n")
        );
    }

    #[test]
    fn json_is_for_those_who_ask_for_it() {
        assert!(!seen("*/*", None).wants_json());
        let seen = seen("text/html, application/json;q=0.5", Some(7));
        assert!(seen.wants_json());
        let value: Value = serde_json::from_str(&seen.json()).unwrap();
        assert_eq!(
            (&value["fields"]["via"], &value["content_bytes"]),
            (&json!("1.1 a, 2 b"), &json!(7))
        );
        assert_eq!(
            (&value["method"], &value["target"]),
            (&json!("POST"), &json!("/hello?x=1"))
        );
    }
}
