//! The actions of a client.

use std::net::UdpSocket;

use bytes::{Buf as _, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::ext::Protocol;
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use quinn::{Connection, Endpoint};
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::link::{self, encoded, varint};

/// Content that is shown, in bytes.
const TEXT: usize = 4096;

/// What the node's certificate says.
const NAME: &str = "node.test";

/// Does one thing.
pub async fn run(ca: &str, address: &str, action: &str, more: &[&str]) -> Result<Value, Failure> {
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
    endpoint.set_default_client_config(link::client(ca, action != "capsules")?);
    let connection = endpoint.connect(address.parse()?, NAME)?.await?;
    let mut client = Client::new(connection, address, action != "capsules").await?;
    let said = match (action, more) {
        ("get", [authority, path]) => client.message(Method::GET, authority, path, None).await?,
        ("post", [authority, path, length]) => {
            client.message(Method::POST, authority, path, Some(length.parse()?)).await?
        }
        ("udp", [target, lengths @ ..]) => client.udp(target, lengths, false).await?,
        ("capsules", [target, lengths @ ..]) => client.udp(target, lengths, true).await?,
        ("moving", [target]) => client.moving(target, &endpoint).await?,
        ("early", [method, authority, path]) => {
            client.message(Method::GET, authority, path, None).await?;
            client.leave();
            client = early(&endpoint, address, method, authority, path).await?;
            client.said.take()
        }
        _ => return Err(format!("no action {action}").into()),
    };
    client.leave();
    endpoint.wait_idle().await;
    Ok(said)
}

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// One connection.
struct Client {
    connection: Connection,
    http: SendRequest<OpenStreams, Bytes>,
    address: String,
    /// What came of an action before.
    said: Value,
}

/// A request whose connection's handshake need not have ended.
async fn early(
    endpoint: &Endpoint,
    address: &str,
    method: &str,
    authority: &str,
    path: &str,
) -> Result<Client, Failure> {
    let connecting = endpoint.connect(address.parse()?, NAME)?;
    let (connection, accepted) = connecting.into_0rtt().map_err(|_| "no early data is allowed")?;
    let mut client = Client::new(connection, address, true).await?;
    let mut said = client.message(method.parse()?, authority, path, None).await?;
    said["early"] = accepted.await.into();
    client.said = said;
    Ok(client)
}

impl Client {
    async fn new(connection: Connection, address: &str, datagrams: bool) -> Result<Self, Failure> {
        let carrier = h3_quinn::Connection::new(connection.clone());
        let mut builder = h3::client::builder();
        let (mut driver, http) =
            builder.enable_extended_connect(true).enable_datagram(datagrams).build(carrier).await?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Self { connection, http, address: address.to_owned(), said: Value::Null })
    }

    /// Says that it goes: the node would wait for it.
    fn leave(&self) {
        self.connection.close(0x100_u32.into(), b"");
    }

    async fn message(
        &mut self,
        method: Method,
        authority: &str,
        path: &str,
        length: Option<usize>,
    ) -> Result<Value, Failure> {
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query(path).build()?;
        let request = Request::builder().method(method).uri(uri).header("te", "trailers").body(())?;
        let mut stream = self.http.send_request(request).await?;
        if let Some(length) = length {
            stream.send_data(vec![b'x'; length].into()).await?;
            let trailers = HeaderMap::from_iter([("x-checksum".parse()?, HeaderValue::from_static("42"))]);
            stream.send_trailers(trailers).await?;
        }
        stream.finish().await?;
        let mut interim = Vec::new();
        let status = loop {
            let status = stream.recv_response().await?.status();
            if !status.is_informational() {
                break status;
            }
            interim.push(status.as_u16());
        };
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        let trailers = stream.recv_trailers().await?.unwrap_or_default();
        let trailers: Map<_, _> =
            trailers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()).into())).collect();
        let shown = (body.len() <= TEXT).then(|| text(&body));
        let (status, bytes) = (status.as_u16(), body.len());
        Ok(json!({ "status": status, "bytes": bytes, "interim": interim, "trailers": trailers, "text": shown }))
    }

    /// Opens a CONNECT-UDP; the status.
    async fn open(&mut self, target: &str) -> Result<(Stream, u16), Failure> {
        let (host, port) = target.split_once(':').ok_or("HOST:PORT")?;
        let uri: Uri = format!("https://{}/.well-known/masque/udp/{host}/{port}/", self.address).parse()?;
        let request = Request::connect(uri).extension(Protocol::CONNECT_UDP).header("capsule-protocol", "?1");
        let mut stream = self.http.send_request(request.body(())?).await?;
        let status = stream.recv_response().await?.status().as_u16();
        Ok((stream, status))
    }

    async fn udp(&mut self, target: &str, lengths: &[&str], capsules: bool) -> Result<Value, Failure> {
        let (mut stream, status) = self.open(target).await?;
        let (mut came, mut held, mut ended) = (Vec::new(), Vec::new(), None);
        for length in lengths {
            let value = vec![0; 1 + length.parse::<usize>()?];
            let back = match capsules {
                true => capsule(&mut stream, &mut held, &value).await,
                false => self.beside(&stream, &value).await.map(|value| value.len()),
            };
            match back {
                Ok(back) => came.push(back - 1),
                Err(error) => ended = Some(error.to_string()),
            }
        }
        let mut said = json!({ "status": status, "came": came });
        if let Some(ended) = ended {
            said["ended"] = ended.into();
        }
        Ok(said)
    }

    /// Sends a QUIC datagram; what comes back.
    async fn beside(&self, stream: &Stream, value: &[u8]) -> Result<Vec<u8>, Failure> {
        let quarter = stream.id().into_inner() / 4;
        self.connection.send_datagram([&encoded(quarter), value].concat().into())?;
        let datagram = self.connection.read_datagram().await?;
        match varint(&datagram).ok_or("no quarter stream ID")? {
            (found, value) if found == quarter => Ok(value.to_vec()),
            _ => Err("of another stream".into()),
        }
    }

    async fn moving(&mut self, target: &str, endpoint: &Endpoint) -> Result<Value, Failure> {
        let (stream, status) = self.open(target).await?;
        let mut came = vec![text(&self.beside(&stream, b"\0before").await?[1..])];
        endpoint.rebind(UdpSocket::bind("127.0.0.1:0")?)?;
        came.push(text(&self.beside(&stream, b"\0after").await?[1..]));
        Ok(json!({ "status": status, "came": came }))
    }
}

/// Sends a capsule (RFC 9297, 3.5); the length of the one that comes back.
async fn capsule(stream: &mut Stream, held: &mut Vec<u8>, value: &[u8]) -> Result<usize, Failure> {
    let capsule = [&encoded(0), &encoded(value.len() as u64), value].concat();
    stream.send_data(capsule.into()).await?;
    loop {
        let capsule = varint(held).and_then(|(kind, rest)| Some((kind, varint(rest)?)));
        if let Some((0, (length, rest))) = capsule
            && rest.len() as u64 >= length
        {
            *held = rest[length as usize..].to_vec();
            return Ok(length as usize);
        }
        let mut data = stream.recv_data().await?.ok_or("the tunnel ended")?;
        held.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
