//! The actions of a client.

use std::collections::VecDeque;

use quiche::h3::{Connection, Event, Header, NameValue as _};
use serde_json::{Value, json};

use crate::Failure;
use crate::link::{self, Link, encoded, varint};

/// Content that is shown, in bytes.
const TEXT: usize = 4096;

/// H3_NO_ERROR (RFC 9114, 8.1).
const NO_ERROR: u64 = 0x100;

/// Does one thing.
pub fn run(ca: &str, address: &str, action: &str, more: &[&str]) -> Result<Value, Failure> {
    let mut client = Client::connect(ca, address, action != "capsules")?;
    match (action, more) {
        ("get", [authority, path]) => client.message("GET", authority, path, None),
        ("post", [authority, path, length]) => client.message("POST", authority, path, Some(length.parse()?)),
        ("bytes", [authority, length]) => client.bytes(authority, length.parse()?),
        ("udp" | "capsules", [target, lengths @ ..]) => client.udp(target, lengths, action == "capsules"),
        ("websocket", [authority, path]) => client.websocket(authority, path),
        ("datagram", bytes) => client.datagram(bytes),
        _ => Err(format!("no action {action}").into()),
    }
}

/// One connection, with one request.
struct Client {
    link: Link,
    http: Connection,
    address: String,
    /// Heads and trailers as they come.
    sections: VecDeque<Vec<Header>>,
    body: Vec<u8>,
    ended: bool,
}

impl Drop for Client {
    /// Says that it goes: the node would wait for it.
    fn drop(&mut self) {
        let _ = self.link.connection.close(true, NO_ERROR, b"");
        let _ = self.link.flush();
    }
}

impl Client {
    fn connect(ca: &str, address: &str, datagrams: bool) -> Result<Self, Failure> {
        let mut link = Link::connect(ca, address.parse()?, datagrams)?;
        let http = link::http(&mut link.connection)?;
        let address = address.to_owned();
        Ok(Self { link, http, address, sections: VecDeque::new(), body: Vec::new(), ended: false })
    }

    /// Waits for something, and takes what is there.
    fn turn(&mut self) -> Result<(), Failure> {
        self.link.turn()?;
        loop {
            match self.http.poll(&mut self.link.connection) {
                Ok((_, Event::Headers { list, .. })) => self.sections.push_back(list),
                Ok((stream, Event::Data)) => self.read(stream),
                Ok((_, Event::Finished)) => self.ended = true,
                Ok((_, Event::Reset(code))) => return Err(format!("the stream was reset: {code:#x}").into()),
                Ok(_) => {}
                Err(quiche::h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self, stream: u64) {
        let mut room = [0; 65535];
        while let Ok(length) = self.http.recv_body(&mut self.link.connection, stream, &mut room) {
            self.body.extend_from_slice(&room[..length]);
        }
    }

    /// Writes all of it, and reads what comes meanwhile.
    fn write(&mut self, stream: u64, mut content: &[u8], end: bool) -> Result<(), Failure> {
        loop {
            match self.http.send_body(&mut self.link.connection, stream, content, end) {
                Ok(written) => content = &content[written..],
                Err(quiche::h3::Error::Done) => self.turn()?,
                Err(error) => return Err(error.into()),
            }
            if content.is_empty() {
                return self.link.flush();
            }
        }
    }

    fn message(&mut self, method: &str, authority: &str, path: &str, length: Option<usize>) -> Result<Value, Failure> {
        let head = head(&[
            (":method", method),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
            ("te", "trailers"),
        ]);
        let stream = self.http.send_request(&mut self.link.connection, &head, length.is_none())?;
        if let Some(length) = length {
            self.write(stream, &vec![b'x'; length], false)?;
            let trailers = self::head(&[("x-checksum", "42")]);
            self.http.send_additional_headers(&mut self.link.connection, stream, &trailers, true, true)?;
        }
        while !self.ended {
            self.turn()?;
        }
        let mut interim = Vec::new();
        let status = loop {
            match status(&self.sections.pop_front().ok_or("no head came")?)? {
                early @ 100..200 => interim.push(early),
                last => break last,
            }
        };
        let trailers: serde_json::Map<_, _> =
            self.sections.iter().flatten().map(|line| (text(line.name()), text(line.value()).into())).collect();
        let shown = (self.body.len() <= TEXT).then(|| text(&self.body));
        let bytes = self.body.len();
        Ok(json!({ "status": status, "bytes": bytes, "interim": interim, "trailers": trailers, "text": shown }))
    }

    /// Opens a tunnel; its stream and the status.
    fn tunnel(&mut self, head: &[Header]) -> Result<(u64, u16), Failure> {
        let extended = head.iter().any(|line| line.name() == b":protocol");
        while extended && !self.http.extended_connect_enabled_by_peer() {
            self.turn()?;
        }
        let stream = self.http.send_request(&mut self.link.connection, head, false)?;
        while self.sections.is_empty() {
            self.turn()?;
        }
        Ok((stream, status(&self.sections[0])?))
    }

    fn bytes(&mut self, authority: &str, length: usize) -> Result<Value, Failure> {
        let (stream, status) = self.tunnel(&head(&[(":method", "CONNECT"), (":authority", authority)]))?;
        self.write(stream, &vec![b'x'; length], true)?;
        while !self.ended {
            self.turn()?;
        }
        Ok(json!({ "status": status, "bytes": self.body.len() }))
    }

    fn extended(&mut self, protocol: &str, scheme: &str, authority: &str, path: &str) -> Result<(u64, u16), Failure> {
        let field = if protocol == "websocket" { ("sec-websocket-version", "13") } else { ("capsule-protocol", "?1") };
        self.tunnel(&head(&[
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", scheme),
            (":authority", authority),
            (":path", path),
            field,
        ]))
    }

    fn udp(&mut self, target: &str, lengths: &[&str], capsules: bool) -> Result<Value, Failure> {
        let (host, port) = target.split_once(':').ok_or("HOST:PORT")?;
        let path = format!("/.well-known/masque/udp/{host}/{port}/");
        let authority = self.address.clone();
        let (stream, status) = self.extended("connect-udp", "https", &authority, &path)?;
        let mut came = Vec::new();
        for length in lengths {
            let value = vec![0; 1 + length.parse::<usize>()?];
            came.push(if capsules { self.capsule(stream, &value)? } else { self.beside(stream, &value)? } - 1);
        }
        Ok(json!({ "status": status, "came": came }))
    }

    /// Sends a QUIC datagram, and the length of the one that comes back.
    fn beside(&mut self, stream: u64, value: &[u8]) -> Result<usize, Failure> {
        let datagram = [&encoded(stream / 4), value].concat();
        self.link.connection.dgram_send(&datagram)?;
        let mut room = [0; 65535];
        loop {
            self.turn()?;
            if let Ok(length) = self.link.connection.dgram_recv(&mut room) {
                let (quarter, value) = varint(&room[..length]).ok_or("no quarter stream ID")?;
                return if quarter == stream / 4 { Ok(value.len()) } else { Err("of another stream".into()) };
            }
        }
    }

    /// The same in a capsule (RFC 9297, 3.5).
    fn capsule(&mut self, stream: u64, value: &[u8]) -> Result<usize, Failure> {
        let capsule = [&encoded(0), &encoded(value.len() as u64), value].concat();
        self.write(stream, &capsule, false)?;
        loop {
            let capsule = varint(&self.body).and_then(|(kind, rest)| Some((kind, varint(rest)?)));
            if let Some((0, (length, rest))) = capsule
                && rest.len() as u64 >= length
            {
                self.body = rest[length as usize..].to_vec();
                return Ok(length as usize);
            }
            self.turn()?;
        }
    }

    fn websocket(&mut self, authority: &str, path: &str) -> Result<Value, Failure> {
        let (stream, status) = self.extended("websocket", "http", authority, path)?;
        self.write(stream, b"frame", false)?;
        while self.body.len() < 5 {
            self.turn()?;
        }
        Ok(json!({ "status": status, "came": text(&self.body) }))
    }

    /// Sends these bytes as a QUIC datagram; the code that the connection was closed with.
    fn datagram(&mut self, bytes: &[&str]) -> Result<Value, Failure> {
        let bytes: Result<Vec<u8>, _> = bytes.iter().map(|byte| u8::from_str_radix(byte, 16)).collect();
        // The peer's settings, and the path's size, are known from its first answer on.
        while !self.http.extended_connect_enabled_by_peer() {
            self.turn()?;
        }
        self.link.connection.dgram_send(&bytes?)?;
        while self.link.connection.peer_error().is_none() {
            self.link.turn()?;
        }
        let error = self.link.connection.peer_error().ok_or("the connection was not closed")?;
        Ok(json!({ "closed": error.error_code, "reason": text(&error.reason) }))
    }
}

fn head(lines: &[(&str, &str)]) -> Vec<Header> {
    lines.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect()
}

fn status(head: &[Header]) -> Result<u16, Failure> {
    let line = head.iter().find(|line| line.name() == b":status").ok_or("no status")?;
    Ok(text(line.value()).parse()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
