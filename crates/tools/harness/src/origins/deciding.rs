//! A server that decides about each request by a function of the test, and remembers the questions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::http::{Request, seen};
use super::{ANY, Memory, Origin, serve};

/// A question to the server.
#[derive(Debug, Clone)]
pub struct Question {
    /// The request.
    pub request: Request,
    /// Its content.
    pub content: String,
}

/// The server's answer: status, fields, content.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The status; 0 leaves the question without an answer.
    pub status: u16,
    /// The fields.
    pub fields: Vec<(&'static str, String)>,
    /// The content.
    pub content: String,
    /// How long it takes the server to find it.
    pub after: Duration,
    /// Whether it finds one after the other, those for clients that are gone included.
    pub in_a_row: bool,
}

impl Answer {
    /// This status with these fields.
    pub fn new(status: u16, fields: &[(&'static str, &str)]) -> Self {
        let fields = fields
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        Self {
            status,
            fields,
            ..Self::default()
        }
    }
}

/// A server on IPv4 loopback that answers as `decide` says.
pub fn deciding(decide: impl Fn(&Question) -> Answer + Send + Sync + 'static) -> Origin<Question> {
    let decide = Arc::new(decide);
    let row = Arc::new(Mutex::new(()));
    serve(ANY, move |stream: TcpStream, memory: Memory<Question>| {
        let decide = decide.clone();
        let row = row.clone();
        async move {
            let service = service_fn(move |request: http::Request<Incoming>| {
                let (decide, memory) = (decide.clone(), memory.clone());
                let row = row.clone();
                async move {
                    let known = seen(&request);
                    let content = request
                        .into_body()
                        .collect()
                        .await
                        .map(|content| content.to_bytes());
                    let content =
                        String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
                    let question = Question {
                        request: known,
                        content,
                    };

                    memory.remember(question.clone());
                    let answer = decide(&question);
                    found(&answer, row).await;
                    Ok::<_, Infallible>(respond(answer).await)
                }
            });
            // A client that breaks off has its answer, or does not want it.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        }
    })
}

/// Waits as long as it takes to find an answer.
async fn found(answer: &Answer, row: Arc<Mutex<()>>) {
    let (after, in_a_row) = (answer.after, answer.in_a_row);
    if after.is_zero() {
        return;
    }
    let finding = tokio::spawn(async move {
        let turn = if in_a_row {
            Some(row.lock().await)
        } else {
            None
        };
        tokio::time::sleep(after).await;
        drop(turn);
    });
    drop(finding.await);
}

async fn respond(answer: Answer) -> http::Response<Full<Bytes>> {
    if answer.status == 0 {
        std::future::pending::<()>().await;
    }
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in answer.fields {
        response = response.header(name, value);
    }

    response.body(Full::from(answer.content)).unwrap()
}
