//! The server.

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quiche::h3::{Event, Header, NameValue as _};
use quiche::{Config, Connection, ConnectionId, RecvInfo};
use serde_json::{Map, Value};

use crate::Failure;
use crate::link;

/// How often timers are looked at.
const TICK: Duration = Duration::from_millis(10);

/// Prints its port and serves until its input ends.
pub fn run(cert: &str, key: &str, datagrams: bool) -> Result<(), Failure> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(TICK))?;
    let local = socket.local_addr()?;
    let mut config = link::config(datagrams)?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    println!("{}", local.port());
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let (mut peers, mut packet, mut next) = (HashMap::<Vec<u8>, Peer>::new(), [0; 65535], 0u64);
    loop {
        match socket.recv_from(&mut packet) {
            Ok((length, from)) => {
                let Ok(header) = quiche::Header::from_slice(&mut packet[..length], 16) else { continue };
                let known = peers.contains_key(&header.dcid.to_vec());
                if !known && header.ty != quiche::Type::Initial {
                    continue;
                }
                let mut id = header.dcid.to_vec();
                if !known {
                    next += 1;
                    id = [&next.to_be_bytes()[..], &[7; 8]].concat();
                    peers.insert(id.clone(), Peer::accept(&id, local, from, &mut config)?);
                }
                let peer = peers.get_mut(&id).ok_or("it was put there")?;
                let _ = peer.connection.recv(&mut packet[..length], RecvInfo { from, to: local });
                peer.serve();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        for peer in peers.values_mut() {
            if peer.connection.timeout().is_some_and(|left| left.is_zero()) {
                peer.connection.on_timeout();
            }
            peer.flush(&socket)?;
        }
        peers.retain(|_, peer| !peer.connection.is_closed());
    }
}

/// One client.
struct Peer {
    connection: Connection,
    http: Option<quiche::h3::Connection>,
    streams: BTreeMap<u64, Stream>,
}

/// One request or tunnel.
#[derive(Default)]
struct Stream {
    is_tunnel: bool,
    /// What is said of a request.
    seen: Map<String, Value>,
    received: usize,
    /// What is still to be sent, its end, and the trailers behind it.
    unsent: Vec<u8>,
    ends: bool,
    trailers: Vec<Header>,
    over: bool,
}

impl Peer {
    fn accept(id: &[u8], local: SocketAddr, from: SocketAddr, config: &mut Config) -> Result<Self, Failure> {
        let connection = quiche::accept(&ConnectionId::from_ref(id), None, local, from, config)?;
        Ok(Self { connection, http: None, streams: BTreeMap::new() })
    }

    /// Takes what has come, and answers as far as there is room.
    fn serve(&mut self) {
        if self.http.is_none() && self.connection.is_established() {
            self.http = link::http(&mut self.connection).ok();
        }
        while let Some(event) = self.http.as_mut().and_then(|http| http.poll(&mut self.connection).ok()) {
            let stream = event.0;
            match event.1 {
                Event::Headers { list, .. } => self.section(stream, &list),
                Event::Data => self.data(stream),
                Event::Finished => self.end(stream),
                Event::Reset(_) => drop(self.streams.remove(&stream)),
                _ => {}
            }
        }
        let mut datagram = [0; 65535];
        while let Ok(length) = self.connection.dgram_recv(&mut datagram) {
            // What does not fit is lost, as datagrams are.
            let _ = self.connection.dgram_send(&datagram[..length]);
        }
        self.write();
    }

    fn section(&mut self, id: u64, list: &[Header]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields: Map<String, Value> =
            list.iter().map(|line| (text(line.name()), text(line.value()).into())).collect();
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.seen.insert("trailers".to_owned(), fields.into());
            return;
        }
        let is_tunnel = fields.get(":method").is_some_and(|method| method == "CONNECT");
        let is_udp = fields.get(":protocol").is_some_and(|protocol| protocol == "connect-udp");
        self.streams.insert(id, Stream { is_tunnel, seen: fields, ..Stream::default() });
        if is_tunnel {
            let more: &[_] = if is_udp { &[("capsule-protocol", "?1")] } else { &[] };
            self.head(id, "200", more);
        }
    }

    /// Answers with this status; an interim one comes before another.
    fn head(&mut self, id: u64, status: &str, more: &[(&str, &str)]) {
        let lines = [(":status", status)].into_iter().chain(more.iter().copied());
        let lines: Vec<Header> = lines.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect();
        let Some(http) = &mut self.http else { return };
        // The second head of a stream goes another way.
        if http.send_response(&mut self.connection, id, &lines, false).is_err() {
            let _ = http.send_additional_headers(&mut self.connection, id, &lines, false, false);
        }
    }

    fn data(&mut self, id: u64) {
        let (Some(http), Some(stream)) = (&mut self.http, self.streams.get_mut(&id)) else { return };
        let mut room = [0; 65535];
        while let Ok(length) = http.recv_body(&mut self.connection, id, &mut room) {
            stream.received += length;
            if stream.is_tunnel {
                stream.unsent.extend_from_slice(&room[..length]);
            }
        }
    }

    fn end(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.ends = true;
        if stream.is_tunnel {
            return;
        }
        stream.seen.insert("bytes".to_owned(), stream.received.into());
        stream.seen.entry("trailers").or_insert_with(|| Map::new().into());
        let path = stream.seen.get(":path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut early = false;
        stream.unsent = match path.as_str() {
            "/trailers" => {
                stream.trailers = vec![Header::new(b"x-checksum", b"42")];
                b"body\n".to_vec()
            }
            "/hints" => {
                early = true;
                b"done\n".to_vec()
            }
            path => match path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()) {
                Some(length) => vec![b'x'; length],
                None => Value::from(stream.seen.clone()).to_string().into_bytes(),
            },
        };
        if early {
            self.head(id, "103", &[("link", "</style.css>")]);
        }
        self.head(id, "200", &[]);
    }

    /// Sends of every stream what there is room for.
    fn write(&mut self) {
        let Some(http) = &mut self.http else { return };
        for (id, stream) in &mut self.streams {
            while !stream.over && (stream.ends || !stream.unsent.is_empty()) {
                let end = stream.ends && stream.trailers.is_empty();
                match http.send_body(&mut self.connection, *id, &stream.unsent, end) {
                    Ok(written) => drop(stream.unsent.drain(..written)),
                    Err(_) if stream.unsent.is_empty() && !end => {}
                    Err(_) => break,
                }
                if stream.unsent.is_empty() && stream.ends {
                    stream.over = true;
                    if !end {
                        let trailers = &stream.trailers;
                        let _ = http.send_additional_headers(&mut self.connection, *id, trailers, true, true);
                    }
                }
            }
        }
        self.streams.retain(|_, stream| !stream.over);
    }

    fn flush(&mut self, socket: &UdpSocket) -> Result<(), Failure> {
        self.write();
        let mut packet = [0; 1350];
        while let Ok((length, info)) = self.connection.send(&mut packet) {
            socket.send_to(&packet[..length], info.to)?;
        }
        Ok(())
    }
}
