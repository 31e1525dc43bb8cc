//! The server.

use bytes::{Buf as _, Bytes};
use h3::ext::Protocol;
use h3::server::RequestStream;
use h3_quinn::BidiStream;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use quinn::Endpoint;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;

use crate::Failure;
use crate::link;

/// Prints its port and serves until its input ends.
pub async fn run(cert: &str, key: &str, datagrams: bool) -> Result<(), Failure> {
    let endpoint = Endpoint::server(link::server(cert, key, datagrams)?, ([127, 0, 0, 1], 0).into())?;
    println!("{}", endpoint.local_addr()?.port());
    let mut said = Vec::new();
    let mut input = tokio::io::stdin();
    let ended = input.read_to_end(&mut said);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => return Ok(()),
            incoming = endpoint.accept() => match incoming {
                // A client that does not get through is that client's affair.
                Some(incoming) => drop(tokio::spawn(connection(incoming, datagrams))),
                None => return Ok(()),
            },
        }
    }
}

async fn connection(incoming: quinn::Incoming, datagrams: bool) -> Result<(), Failure> {
    let connection = incoming.await?;
    let echo = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = echo.read_datagram().await {
            // What does not fit is lost, as datagrams are.
            let _ = echo.send_datagram(datagram);
        }
    });
    let mut builder = h3::server::builder();
    let carrier = h3_quinn::Connection::new(connection);
    let mut http = builder.enable_extended_connect(true).enable_datagram(datagrams).build(carrier).await?;
    while let Some(resolver) = http.accept().await? {
        tokio::spawn(async move {
            let (request, stream) = resolver.resolve_request().await?;
            match request.method() {
                &Method::CONNECT => tunnel(&request, stream).await,
                _ => message(request, stream).await,
            }
        });
    }
    Ok(())
}

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Sends back what comes.
async fn tunnel(request: &Request<()>, mut stream: Stream) -> Result<(), Failure> {
    let mut head = Response::builder().status(200);
    if request.extensions().get::<Protocol>() == Some(&Protocol::CONNECT_UDP) {
        head = head.header("capsule-protocol", "?1");
    }
    stream.send_response(head.body(())?).await?;
    while let Some(mut data) = stream.recv_data().await? {
        let bytes = data.copy_to_bytes(data.remaining());
        drop(data);
        stream.send_data(bytes).await?;
    }
    Ok(stream.finish().await?)
}

async fn message(request: Request<()>, mut stream: Stream) -> Result<(), Failure> {
    let mut bytes = 0;
    while let Some(data) = stream.recv_data().await? {
        bytes += data.remaining();
    }
    let trailers = stream.recv_trailers().await?.unwrap_or_default();
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    if path == "/hints" {
        stream.send_response(Response::builder().status(103).header("link", "</style.css>").body(())?).await?;
    }
    stream.send_response(Response::builder().status(200).body(())?).await?;
    let content = match path {
        "/trailers" => "body\n".to_owned(),
        "/hints" => "done\n".to_owned(),
        _ => match path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()) {
            Some(length) => "x".repeat(length),
            None => seen(&request, bytes, &trailers).to_string(),
        },
    };
    stream.send_data(content.into()).await?;
    if path == "/trailers" {
        let trailers = HeaderMap::from_iter([("x-checksum".parse()?, HeaderValue::from_static("42"))]);
        stream.send_trailers(trailers).await?;
    }
    Ok(stream.finish().await?)
}

/// What is said of a request.
fn seen(request: &Request<()>, bytes: usize, trailers: &HeaderMap) -> Value {
    let mut said = fields(request.headers());
    let uri = request.uri();
    said.insert(":method".to_owned(), request.method().as_str().into());
    said.insert(":authority".to_owned(), uri.authority().map(|it| it.as_str()).into());
    said.insert(":path".to_owned(), uri.path_and_query().map(|it| it.as_str()).into());
    said.insert("bytes".to_owned(), bytes.into());
    said.insert("trailers".to_owned(), json!(fields(trailers)));
    said.into()
}

fn fields(map: &HeaderMap) -> Map<String, Value> {
    map.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into())).collect()
}
