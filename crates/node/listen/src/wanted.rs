//! What a listener asks for.

use hermes_admit::remote_device::REMOTE_MTU;
use hermes_config::model::{
    Attach, Document, HttpVersion, Listener, ListenerKind, NamedEcho, OtherTunAddress, SplitDns,
    SystemUsers, Tun, TunDetails, TunSenders,
};
use hermes_ip::NameLeases;
use hermes_net::tun::{MAX_QUEUES, Past, Senders, TunSettings};
use hermes_packet::tun::OtherAssigned;
use hermes_rules::packets::prefix_of;
use hermes_rules::versions;
use hermes_stack::EchoHandling;
use ipnet::IpNet;

use super::bind::{At, Serves, Wanted};
use super::tun::{ListenerNames, ListenerTun};
use crate::device_upkeep::MTU;

/// Attachments that a listener keeps where the configuration says nothing: so that one worker, or one endpoint, may fail.
const ATTACHMENTS: u8 = 2;

/// The name under which a listener attaches.
pub(super) fn attached_as<'a>(document: &'a Document, attach: &'a Attach) -> Option<&'a str> {
    attach.name().or(document
        .identity
        .as_ref()
        .map(|identity| identity.user.as_str()))
}

/// The device of a listener.
fn device(tun: &Tun) -> TunSettings {
    let details = tun.details();
    TunSettings {
        name: tun.name().to_owned(),
        queues: details
            .and_then(|details| details.queues)
            .map_or(MAX_QUEUES, usize::from),
        mtu: details
            .and_then(|details| details.mtu)
            .unwrap_or(if tun.wireguard().is_some() {
                REMOTE_MTU
            } else {
                MTU
            })
            .into(),
        addresses: addresses(tun),
        routes: routes(tun),
        past: Some(details.map_or_else(Past::default, past)),
        masquerade: false,
    }
}

/// Its addresses. Without a tunnel that could assign some, it has the first of each prefix of names, and answers come to these alone.
fn addresses(tun: &Tun) -> Vec<IpNet> {
    let details = tun.details();
    let given = details.map_or_else(Vec::new, |details| details.addresses.clone());
    if !given.is_empty() || tun.keeps_tunnels() {
        return given;
    }
    let pool = tun.dns().into_iter().flat_map(|dns| &dns.pool);
    let own = pool.filter_map(prefix_of).map(NameLeases::device_address);
    own.map(IpNet::from).collect()
}

/// What is led to it: to its tunnels, and to its names.
fn routes(tun: &Tun) -> Vec<IpNet> {
    let routes = tun
        .details()
        .into_iter()
        .flat_map(|details| &details.routes);
    let names = tun.dns().into_iter().flat_map(|dns| &dns.pool);
    routes.chain(names).copied().collect()
}

/// The names behind some of the addresses that are led to it.
fn names(tun: &Tun, dns: &SplitDns) -> ListenerNames {
    ListenerNames {
        pool: dns.pool.iter().filter_map(prefix_of).collect(),
        echo: match dns.echo {
            None | Some(NamedEcho::Answer) => EchoHandling::Answer,
            Some(NamedEcho::Refuse) => EchoHandling::HandOn,
        },
        has_tunnels: tun.keeps_tunnels(),
    }
}

/// What passes by it.
fn past(details: &TunDetails) -> Past {
    let senders = |senders: &Option<TunSenders>| senders.as_ref().map(in_kernel);
    Past {
        nets: details.exclude.clone(),
        only: senders(&details.only).unwrap_or_default(),
        except: senders(&details.except).unwrap_or_default(),
    }
}

fn in_kernel(senders: &TunSenders) -> Senders {
    let users = senders.users.iter().map(|users| match users {
        SystemUsers::Name(name) => hermes_net::tun::SystemUsers::named(name),
        SystemUsers::Numbers(first, last) => hermes_net::tun::SystemUsers::Numbers(*first, *last),
    });
    Senders {
        users: users.collect(),
        cgroups: senders
            .cgroups
            .iter()
            .map(|group| group.0.clone())
            .collect(),
    }
}

/// What happens where the tunnel of a listener's device assigns other addresses.
fn other_assigned(tun: &Tun) -> OtherAssigned {
    let details = tun.details();
    let is_configured = details.is_some_and(|details| !details.addresses.is_empty());
    match details.and_then(|details| details.other_address) {
        Some(OtherTunAddress::Nat) => OtherAssigned::Translate,
        Some(OtherTunAddress::Refuse) => OtherAssigned::Refuse,
        Some(OtherTunAddress::Adopt) => OtherAssigned::Adopt,
        None if is_configured => OtherAssigned::Refuse,
        None => OtherAssigned::Adopt,
    }
}

/// What a listener asks for: the stream part first.
pub(super) fn wanted(
    document: &Document,
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
        ListenerKind::Tcp(tcp) => one(Serves::Streams, At::Address(tcp.address.clone())),
        ListenerKind::Udp(udp) => one(Serves::Datagrams, At::Address(udp.address.clone())),
        ListenerKind::Attach(listener) => {
            one(Serves::Attachments, attached(document, &listener.attach))
        }
        ListenerKind::Tun(listener) => one(Serves::Packets, device_of(&listener.tun)),
    };

    let parts = parts.into_iter().flatten();
    parts.map(|(serves, at)| Wanted { serves, at })
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

fn device_of(tun: &Tun) -> At {
    At::Device {
        tun: Box::new(ListenerTun {
            settings: device(tun),
            other: other_assigned(tun),
            super_packets: tun.super_packets(),
            is_stack: tun.is_stack(),
            names: tun.dns().map(|dns| names(tun, dns)),
            wireguard: tun.wireguard().cloned().map(Box::new),
        }),
        is_split: tun.tunnels().next().is_some(),
    }
}
