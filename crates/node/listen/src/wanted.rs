//! The sockets that a listener asks for.

use hermes_config::model::{
    Attach, Capture, Document, HttpVersion, ListenAddress, Listener, ListenerKind, TcpListener,
};
use hermes_rules::versions;

use super::bind::{At, Serves, Wanted};
use super::capture::network::NetworkSpec;
use super::device_spec::DeviceSpec;
use super::host_capture;

/// Attachments that a listener keeps where the configuration says nothing: so that one worker, or one endpoint, may fail.
const ATTACHMENTS: u8 = 2;

/// The name under which a listener attaches.
pub(super) fn attached_as<'a>(document: &'a Document, attach: &'a Attach) -> Option<&'a str> {
    attach.name().or(document
        .identity
        .as_ref()
        .map(|identity| identity.user.as_str()))
}

/// The sockets that a listener asks for, those of streams first.
pub(super) fn wanted(
    document: &Document,
    name: &str,
    listener: &Listener,
) -> impl Iterator<Item = Wanted> + use<> {
    let parts = match &listener.kind {
        ListenerKind::Http(http) => {
            let spoken = versions(document, listener);
            let place = || At::Address(http.address.clone());
            let streams = spoken != [HttpVersion::H3];
            let quic = spoken.contains(&HttpVersion::H3);
            [
                streams.then(|| (Serves::Streams, place())),
                quic.then(|| (Serves::Quic, place())),
            ]
        }
        ListenerKind::Tcp(tcp) => [
            Some((Serves::Streams, At::Address(tcp.address.clone()))),
            split(name, tcp),
        ],
        ListenerKind::Socks(socks) => one(Serves::Streams, At::Address(socks.address.clone())),
        ListenerKind::Udp(udp) => one(Serves::Datagrams, At::Address(udp.address.clone())),
        ListenerKind::Attach(listener) => {
            one(Serves::Attachments, attached(document, &listener.attach))
        }
        ListenerKind::Tun(listener) => {
            let device = Box::new(DeviceSpec::of_listener(&listener.tun));
            one(Serves::Packets, At::Device(device))
        }
        ListenerKind::Capture(listener) => captured(name, &listener.capture),
    };

    let parts = parts.into_iter().flatten();
    let is_multipath = listener.multipath;
    parts.map(move |(serves, at)| Wanted {
        serves,
        at,
        is_multipath: is_multipath && serves == Serves::Streams,
    })
}

/// The beginnings of connections to a listener that holds them.
fn split(name: &str, listener: &TcpListener) -> Option<(Serves, At)> {
    let ListenAddress::Ip(own) = listener.address else {
        return None;
    };
    let settings = host_capture::split(name, own);
    let at = || (Serves::Captured, At::Captured(Box::new(settings)));
    listener.split.then(at)
}

fn captured(name: &str, capture: &Capture) -> [Option<(Serves, At)>; 2] {
    if let Some(own) = &capture.host {
        let settings = host_capture::captured(name, own);
        return one(Serves::Captured, At::Captured(Box::new(settings)));
    }
    let programs = capture.exec.as_ref().map(|path| path.0.clone());
    let programs = programs.map(|path| (Serves::Streams, At::Programs(path)));
    let network = NetworkSpec::of(capture);
    let network = network.map(|network| (Serves::Packets, At::Network(Box::new(network))));
    [programs, network]
}

fn one(serves: Serves, at: At) -> [Option<(Serves, At)>; 2] {
    [Some((serves, at)), None]
}

fn attached(document: &Document, attach: &Attach) -> At {
    At::Upstream {
        upstream: attach.upstream().to_owned(),
        name: attached_as(document, attach).unwrap_or_default().to_owned(),
        connections: attach.connections().unwrap_or(ATTACHMENTS),
    }
}
