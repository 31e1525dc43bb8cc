//! The tap: records the flows of a route to files that Wireshark and tcpdump read.
//!
//! A thread of its own writes; a flow never waits for it. Bytes that it has no time or room for are missing in the files, which say how
//! many pieces those were.

mod pcapng;
mod rotation;
mod writer;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use hermes_config::Problem;
use hermes_config::model::{ByteSize, FilePath};
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Alter, AlterDatagram, Altering, AlteringDatagrams, Beginning, BeginningDatagrams, DatagramFate,
    Malformed, Payload, Settings, Transform, TunnelSubject,
};
use hermes_proto::proxy_status::ProxyError;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::passing::pass;
use pcapng::{Flags, FlowPacket, FlowProtocol};
use rotation::Rotation;
use writer::TapWriter;

/// The least size of a file.
#[doc(alias = "bound")]
const LEAST_FILE: u64 = 64 * 1024;

/// Files of one tap, at most.
#[doc(alias = "bound")]
const MOST_FILES: u16 = 1000;

/// The settings of `tap`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TapSettings {
    /// The folder of the files, which is there already.
    folder: FilePath,
    /// The size of a file, after which the next begins. Default: 16MiB.
    #[serde(default)]
    size: Option<ByteSize>,
    /// Files that are kept; the oldest goes when another begins. Default: 8.
    #[serde(default)]
    files: Option<u16>,
}

/// Records flows. Named alone, without a folder, it lets no tunnel begin.
#[derive(Default)]
pub struct Tap(Option<Recording>);

/// Where flows are recorded.
struct Recording {
    rotation: Rotation,
    /// Started by the first flow.
    writer: Mutex<Option<TapWriter>>,
    /// Ports of clients that have none, such as those at Unix sockets.
    ports: AtomicU16,
}

impl Tap {
    fn make(settings: TapSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        let size = settings.size.map_or(16 << 20, |size| size.0);
        let files = settings.files.unwrap_or(8);
        let mut problems = Vec::new();
        if size < LEAST_FILE {
            let problem = Problem::new("size", "too small for one piece of a flow");
            problems.push(problem.remedy("write at least 64KiB"));
        }
        if !(1..=MOST_FILES).contains(&files) {
            let problem = Problem::new("files", "the number of files is out of range");
            problems.push(problem.remedy("write 1 to 1000"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }

        let rotation = Rotation {
            folder: settings.folder.0,
            size,
            files: usize::from(files),
        };
        Ok(Arc::new(Self(Some(Recording {
            rotation,
            writer: Mutex::default(),
            ports: AtomicU16::new(1),
        }))))
    }

    fn flow(&self, tunnel: &TunnelSubject<'_>, protocol: FlowProtocol) -> Result<Flow, Refusal> {
        let refused = |details: String| Refusal::new(ProxyError::ProxyConfigurationError, details);
        let Some(recording) = &self.0 else {
            let details = "`tap` has no folder: write `{ tap: { folder: /var/lib/hermes/tap } }`";
            return Err(refused(details.to_owned()));
        };
        // Not with the document, which may only be checked.
        let mut writer = recording.writer.lock();
        let writer = match &*writer {
            Some(writer) => writer.clone(),
            None => {
                let started = TapWriter::start(recording.rotation.clone());
                let started = started.map_err(|error| {
                    refused(format!("the thread of `tap` has not begun: {error}"))
                })?;
                writer.insert(started).clone()
            }
        };

        Ok(Flow {
            writer,
            protocol,
            client: recording.client(tunnel),
            target: target(tunnel),
        })
    }
}

impl Recording {
    /// The address of a client in the files.
    fn client(&self, tunnel: &TunnelSubject<'_>) -> SocketAddr {
        match tunnel.source.peer.socket() {
            Some(address) => address,
            None => {
                let port = self.ports.fetch_add(1, Ordering::Relaxed);
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
            }
        }
    }
}

/// The address of a target in the files. A name has none before it is dialled, and not always here: it stands as the unspecified address,
/// and in the comment.
fn target(tunnel: &TunnelSubject<'_>) -> SocketAddr {
    let host = tunnel.target.host().trim_matches(['[', ']']);
    let address = host.parse().unwrap_or(match tunnel.source.peer.ip() {
        Some(IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    });
    SocketAddr::new(address, tunnel.target.port().unwrap_or(0))
}

/// A recorded flow.
#[derive(Clone)]
struct Flow {
    writer: TapWriter,
    protocol: FlowProtocol,
    client: SocketAddr,
    target: SocketAddr,
}

impl Flow {
    fn tell(&self, is_to_target: bool, packet: FlowContent) {
        let (from, to) = match is_to_target {
            true => (self.client, self.target),
            false => (self.target, self.client),
        };
        self.writer.send(FlowPacket {
            at: SystemTime::now(),
            protocol: self.protocol,
            from,
            to,
            flags: packet.flags,
            sequence: packet.sequence,
            payload: packet.payload,
            comment: packet.comment,
        });
    }
}

/// The part of a packet that the flow does not say.
struct FlowContent {
    flags: Flags,
    sequence: u32,
    payload: Bytes,
    comment: Option<Box<str>>,
}

impl Transform for Tap {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let begun = match tunnel.payload {
            Payload::Bytes => self.flow(tunnel, FlowProtocol::Tcp).map(|flow| {
                let user = tunnel.user.unwrap_or("-");
                let comment = format!("target {} user {user}", tunnel.target);
                let altering = Altering {
                    to_target: Box::new(TappedBytes::new(flow.clone(), true, Some(comment))),
                    to_client: Box::new(TappedBytes::new(flow, false, None)),
                };
                Some(altering)
            }),
            Payload::Packets => {
                let details = "`tap` records no tunnels of IP packets: record at the device";
                Err(Refusal::new(ProxyError::ProxyConfigurationError, details))
            }
            Payload::Datagrams | Payload::Message => Ok(None),
        };
        Box::pin(std::future::ready(begun))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let begun = self.flow(tunnel, FlowProtocol::Udp).map(|flow| {
            Some(AlteringDatagrams {
                to_target: Box::new(TappedDatagrams {
                    flow: flow.clone(),
                    is_to_target: true,
                }),
                to_client: Box::new(TappedDatagrams {
                    flow,
                    is_to_target: false,
                }),
            })
        });
        Box::pin(std::future::ready(begun))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }
}

/// One direction of a recorded tunnel of bytes.
struct TappedBytes {
    flow: Flow,
    is_to_target: bool,
    sequence: u32,
}

impl TappedBytes {
    fn new(flow: Flow, is_to_target: bool, comment: Option<String>) -> Self {
        let opening = FlowContent {
            flags: Flags::Syn,
            sequence: 0,
            payload: Bytes::new(),
            comment: comment.map(String::into_boxed_str),
        };
        flow.tell(is_to_target, opening);
        Self {
            flow,
            is_to_target,
            sequence: 1,
        }
    }

    fn tell(&mut self, flags: Flags, payload: Bytes) {
        let length = u32::try_from(payload.len()).unwrap_or(0);
        let content = FlowContent {
            flags,
            sequence: self.sequence,
            payload,
            comment: None,
        };
        self.flow.tell(self.is_to_target, content);
        self.sequence = self.sequence.wrapping_add(length);
    }
}

impl Alter for TappedBytes {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if pass(input, output) > 0 {
            self.tell(Flags::Ack, Bytes::copy_from_slice(output));
        }
        Ok(())
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        self.tell(Flags::Fin, Bytes::new());
        Ok(true)
    }
}

/// One direction of a recorded tunnel of datagrams.
struct TappedDatagrams {
    flow: Flow,
    is_to_target: bool,
}

impl AlterDatagram for TappedDatagrams {
    fn alter(&mut self, datagram: &[u8], _: &mut BytesMut) -> Result<DatagramFate, String> {
        let content = FlowContent {
            flags: Flags::Ack,
            sequence: 0,
            payload: Bytes::copy_from_slice(datagram),
            comment: None,
        };
        self.flow.tell(self.is_to_target, content);
        Ok(DatagramFate::Unchanged)
    }
}
