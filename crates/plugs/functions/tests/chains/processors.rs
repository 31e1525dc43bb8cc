//! Processors that speak Envoy's `ext_proc`, some of which hang, die or lie. The server is tonic's, its messages are declared here a second
//! time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::node::{Node, bytes, head};

#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(message, optional, tag = "2")]
    request_headers: Option<Headers>,
    #[prost(message, optional, tag = "3")]
    response_headers: Option<Headers>,
    #[prost(message, optional, tag = "4")]
    request_body: Option<Body>,
    #[prost(message, optional, tag = "5")]
    response_body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Headers {
    #[prost(message, optional, tag = "1")]
    map: Option<Map>,
    #[prost(bool, tag = "3")]
    end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Map {
    #[prost(message, repeated, tag = "1")]
    headers: Vec<Header>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(bytes = "vec", tag = "3")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    body: Vec<u8>,
    #[prost(bool, tag = "2")]
    end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    request_headers: Option<Part>,
    #[prost(message, optional, tag = "2")]
    response_headers: Option<Part>,
    #[prost(message, optional, tag = "3")]
    request_body: Option<Part>,
    #[prost(message, optional, tag = "4")]
    response_body: Option<Part>,
    #[prost(message, optional, tag = "7")]
    immediate: Option<Immediate>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Part {
    #[prost(message, optional, tag = "1")]
    response: Option<Common>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Common {
    #[prost(message, optional, tag = "2")]
    fields: Option<Changes>,
    #[prost(message, optional, tag = "3")]
    body: Option<Replaced>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Changes {
    #[prost(message, repeated, tag = "1")]
    set: Vec<Set>,
    #[prost(string, repeated, tag = "2")]
    remove: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Set {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int32, tag = "3")]
    action: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Replaced {
    #[prost(bytes = "vec", optional, tag = "1")]
    body: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Immediate {
    #[prost(message, optional, tag = "1")]
    status: Option<Code>,
    #[prost(bytes = "vec", tag = "3")]
    body: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Code {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// What a processor does with a question.
enum Act {
    Answer(Answer),
    Twice(Answer),
    Nothing,
    Leave,
    Fail,
}

type Judge = fn(Question) -> Act;

/// A processor of gRPC.
async fn processor(judge: Judge) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(
                move |request: http::Request<hyper::body::Incoming>| async move {
                    let is_process = request.uri().path()
                        == "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
                    assert!(is_process, "{}", request.uri());
                    let mut grpc = Grpc::new(ProstCodec::<Answer, Question>::default());
                    Ok::<_, Infallible>(grpc.streaming(Judged(judge), request).await)
                },
            );
            let serving = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[derive(Clone)]
struct Judged(Judge);

type Answering = Pin<
    Box<
        dyn Future<Output = Result<Response<ReceiverStream<Result<Answer, Status>>>, Status>>
            + Send,
    >,
>;

impl StreamingService<Question> for Judged {
    type Response = Answer;
    type ResponseStream = ReceiverStream<Result<Answer, Status>>;
    type Future = Answering;

    fn call(&mut self, request: Request<Streaming<Question>>) -> Self::Future {
        let judge = self.0;
        Box::pin(async move {
            let mut questions = request.into_inner();
            let (answers, stream) = mpsc::channel(4);
            tokio::spawn(async move {
                while let Ok(Some(question)) = questions.message().await {
                    match judge(question) {
                        Act::Answer(answer) => answers.send(Ok(answer)).await.ok(),
                        Act::Twice(answer) => {
                            answers.send(Ok(answer.clone())).await.ok();
                            answers.send(Ok(answer)).await.ok()
                        }
                        Act::Nothing => Some(()),
                        Act::Leave => return,
                        Act::Fail => {
                            answers.send(Err(Status::internal("it died"))).await.ok();
                            return;
                        }
                    };
                }
            });
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}

fn set(key: &str, value: &str) -> Set {
    Set {
        header: Some(Header {
            key: key.to_owned(),
            value: String::new(),
            raw: value.as_bytes().to_vec(),
        }),
        action: 2,
    }
}

fn fields(set: Vec<Set>) -> Option<Part> {
    let changes = Changes {
        set,
        remove: vec!["x-secret".to_owned()],
    };
    Some(Part {
        response: Some(Common {
            fields: Some(changes),
            body: None,
        }),
    })
}

/// A piece in capitals.
fn capitals(body: &Body) -> Option<Part> {
    Some(Part {
        response: Some(Common {
            fields: None,
            body: Some(Replaced {
                body: Some(body.body.to_ascii_uppercase()),
            }),
        }),
    })
}

/// Agrees with all, and marks heads; contents become capitals.
fn agree(question: Question) -> Answer {
    let mut answer = Answer::default();
    if question.request_headers.is_some() {
        answer.request_headers = fields(vec![set("x-processed", "yes")]);
    } else if question.response_headers.is_some() {
        answer.response_headers = fields(vec![set("x-answered", "yes")]);
    } else if let Some(body) = &question.request_body {
        answer.request_body = capitals(body);
    } else if let Some(body) = &question.response_body {
        answer.response_body = capitals(body);
    }
    answer
}

fn immediate(code: i32) -> Answer {
    Answer {
        immediate: Some(Immediate {
            status: Some(Code { code }),
            body: b"no".to_vec(),
        }),
        ..Answer::default()
    }
}

/// An origin that answers with the request as it came, head and content.
async fn quoting() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let head = head(&mut stream).await;
                let mut content = Vec::new();
                let length = head
                    .to_lowercase()
                    .split("content-length: ")
                    .nth(1)
                    .map(|rest| {
                        let digits = rest.split('\r').next().unwrap();
                        digits.parse::<usize>().unwrap()
                    });
                if let Some(length) = length {
                    content = bytes(&mut stream, length).await;
                }
                let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
                while is_chunked && !content.ends_with(b"0\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => content.push(byte),
                        Err(_) => return,
                    }
                }
                let quoted = [head.as_bytes(), &content].concat();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nX-Secret: x\r\nContent-Length: {}\r\n\r\n",
                    quoted.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.write_all(&quoted).await;
            });
        }
    });
    address
}

fn through(origin: SocketAddr, processor: SocketAddr, more: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         upstreams: {{ origin: {{ endpoints: [\"{origin}\"] }} }}\n\
         functions: {{ p: {{ ext_proc: {{ to: \"{processor}\", silence: 1s{more} }} }} }}\n\
         routes: [{{ terminate: origin, through: [p] }}]\n"
    )
}

/// Sends a content to the origin; gives the head of the answer, and its content to the end.
async fn post(node: &Node, origin: SocketAddr) -> (String, String) {
    let request = format!(
        "POST http://{origin}/path HTTP/1.1\r\nHost: {origin}\r\nX-Secret: s\r\nProxy-Authorization: Basic eDp5\r\n\
         Content-Length: 11\r\nConnection: close\r\n\r\nsmall words"
    );
    let (mut stream, head) = node.ask(&request).await;
    let content = bytes(&mut stream, 1 << 20).await;
    (head, String::from_utf8_lossy(&content).into_owned())
}

async fn posted(judge: Judge, more: &str) -> (String, String) {
    let origin = quoting().await;
    let node = Node::start("n", &through(origin, processor(judge).await, more));
    let answered = post(&node, origin).await;
    node.end().await;
    answered
}

#[tokio::test]
async fn heads_and_contents_pass_changed_in_both_directions() {
    let (head, content) = posted(|question| Act::Answer(agree(question)), "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let lower = head.to_lowercase();
    assert!(
        lower.contains("x-answered: yes") && !lower.contains("x-secret"),
        "{head}"
    );
    // The request that reached the origin, in the capitals of its answer.
    assert!(content.contains("X-PROCESSED: YES"), "{content}");
    assert!(!content.contains("X-SECRET"), "{content}");
    assert!(content.contains("SMALL WORDS"), "{content}");

    let (_, content) = posted(|question| Act::Answer(agree(question)), ", sees: requests").await;
    assert!(
        content.contains("SMALL WORDS") && content.contains("POST /path"),
        "{content}"
    );
    let (head, content) = posted(|question| Act::Answer(agree(question)), ", sees: answers").await;
    assert!(head.to_lowercase().contains("x-answered: yes") && content.contains("SMALL WORDS"));
    let (_, content) = posted(|question| Act::Answer(agree(question)), ", contents: false").await;
    assert!(content.contains("small words"), "{content}");
}

#[tokio::test]
async fn a_processor_answers_in_place_of_the_target() {
    let denies: [Judge; 3] = [
        |_| Act::Answer(immediate(403)),
        |question| match question.request_body {
            Some(_) => Act::Answer(immediate(403)),
            None => Act::Answer(agree(question)),
        },
        |question| match question.response_headers {
            Some(_) => Act::Answer(immediate(403)),
            None => Act::Answer(agree(question)),
        },
    ];
    for judge in denies {
        let (head, content) = posted(judge, "").await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
        assert_eq!(content, "no");
    }
}

#[tokio::test]
async fn a_processor_that_fails_is_told_and_nothing_passes_without_it() {
    let fails: [(Judge, &str); 5] = [
        (|_| Act::Nothing, "504"),
        (|_| Act::Fail, "502"),
        (|_| Act::Answer(Answer::default()), "502"),
        (
            |question| match question.request_headers {
                Some(_) => Act::Answer(Answer {
                    request_body: capitals(&Body::default()),
                    ..Answer::default()
                }),
                None => Act::Answer(agree(question)),
            },
            "502",
        ),
        (
            |question| match question.request_headers {
                Some(_) => Act::Answer(Answer {
                    request_headers: fields(vec![set(":path", "/admin")]),
                    ..Answer::default()
                }),
                None => Act::Answer(agree(question)),
            },
            "502",
        ),
    ];
    for (judge, status) in fails {
        let (head, content) = posted(judge, "").await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}")),
            "{status}: {head}"
        );
        assert!(!content.to_lowercase().contains("small words"), "{content}");
    }
    // Away: refused, or passed by where it is only welcome.
    let origin = quoting().await;
    let closed = "127.0.0.1:9".parse().unwrap();
    let node = Node::start("n", &through(origin, closed, ""));
    let (head, _) = post(&node, origin).await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    node.apply(&through(origin, closed, ", need: best"));
    let (head, content) = post(&node, origin).await;
    assert!(
        head.starts_with("HTTP/1.1 200") && content.contains("small words"),
        "{head}"
    );
    node.end().await;
}

#[tokio::test]
async fn a_content_in_whose_midst_a_processor_fails_is_never_whole() {
    let fails: [Judge; 3] = [
        |question| match question.response_body {
            Some(_) => Act::Fail,
            None => Act::Answer(agree(question)),
        },
        |question| match question.response_body {
            Some(_) => Act::Nothing,
            None => Act::Answer(agree(question)),
        },
        |question| match question.response_body {
            Some(_) => Act::Twice(agree(question)),
            None => Act::Answer(agree(question)),
        },
    ];
    for judge in fails {
        let (head, content) = posted(judge, "").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        // The last chunk is the proof of a whole content.
        assert!(!content.ends_with("0\r\n\r\n"), "{content}");
    }
    let (head, _) = posted(
        |question| match question.request_body {
            Some(_) => Act::Twice(agree(question)),
            None => Act::Answer(agree(question)),
        },
        "",
    )
    .await;
    assert!(!head.starts_with("HTTP/1.1 2"), "{head}");
}

#[tokio::test]
async fn a_processor_that_leaves_properly_has_seen_enough() {
    let leaves: [Judge; 2] = [
        |_| Act::Leave,
        |question| match question.response_body {
            Some(_) => Act::Leave,
            None => Act::Answer(agree(question)),
        },
    ];
    for judge in leaves {
        let (head, content) = posted(judge, "").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(content.to_lowercase().contains("small words"), "{content}");
    }
}

#[tokio::test]
async fn who_hangs_at_a_processor_leaves_room_for_others() {
    let origin = quoting().await;
    let hangs = processor(|question| {
        let headers = question.request_headers.clone().unwrap_or_default();
        let is_bad = headers
            .map
            .unwrap_or_default()
            .headers
            .iter()
            .any(|header| header.key == "x-bad");
        match is_bad {
            true => Act::Nothing,
            false => Act::Answer(agree(question)),
        }
    })
    .await;
    // Silence longer than the test: places are taken until it ends.
    let yaml = through(origin, hangs, ", exchanges: 4").replace("silence: 1s", "silence: 60s");
    let node = Node::start("n", &yaml);
    let mut hanging = Vec::new();
    for _ in 0..2 {
        let mut stream = tokio::net::TcpStream::connect(node.address())
            .await
            .unwrap();
        let request =
            format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nX-Bad: 1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        hanging.push(stream);
    }
    // Half is all that one source gets.
    let request =
        format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n");
    let refused = async {
        loop {
            let (_, head) = node.ask(&request).await;
            if head.starts_with("HTTP/1.1 503") {
                return head;
            }
            tokio::task::yield_now().await;
        }
    };
    let head = tokio::time::timeout(Duration::from_secs(20), refused)
        .await
        .unwrap();
    assert!(head.contains("for this user or source"), "{head}");
    // Another source.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(node.address()).await.unwrap();
    other.write_all(request.as_bytes()).await.unwrap();
    assert!(
        super::node::head(&mut other)
            .await
            .starts_with("HTTP/1.1 200")
    );
    drop(hanging);
    node.end().await;
}
