//! `tun` listeners: the packets that this machine sends into a device become one CONNECT-IP exchange, or several (`split.rs`).
//!
//! The exchange is an ordinary one: it is routed by its fields and its user, and where it goes its capsules go. When it ends, or no one
//! takes it, another is begun after a pause; the device, its addresses and its routes stay meanwhile.

use std::io;
use std::sync::Arc;

use hermes_admit::entrance::Entrance;
use hermes_admit::remote_device;
use hermes_config::model::{TunDetails, Wireguard};
use hermes_net::Watch;
use hermes_net::tun::TunSettings;
use hermes_packet::tun::{
    NamedHosts, NodePools, OtherAssigned, StackDeviceSettings, TunClient, TunHub, TunService,
};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;
use hermes_stack::{EchoHandling, StackSettings};

use super::device_tunnel::{self, LONGEST, PAUSE};
use super::{named, split};
use crate::device_upkeep::{DATAGRAMS, mind};

/// The device of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTun {
    /// What it is to be.
    pub settings: TunSettings,
    /// What happens where its tunnel assigns other addresses.
    pub other: OtherAssigned,
    /// Whether its tunnels offer super-packets.
    pub super_packets: bool,
    /// Whether there is no device, but what routes send there.
    pub is_stack: bool,
    /// The names behind some of the addresses that are led to it.
    pub names: Option<ListenerNames>,
    /// The machine that has the device, if it is not this one.
    pub wireguard: Option<Box<Wireguard>>,
}

/// The names behind the device of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerNames {
    /// Of what each gets an address.
    pub pool: Vec<IpPrefix>,
    /// What becomes of their pings.
    pub echo: EchoHandling,
    /// Whether there are tunnels beside them.
    pub has_tunnels: bool,
}

/// Keeps a tunnel for the packets of a device until told to stop.
pub(super) async fn serve(
    mut entrance: Entrance,
    tun: ListenerTun,
    watch: &Watch,
) -> io::Result<()> {
    entrance.renew();
    let has_tunnels = tun.names.as_ref().is_none_or(|names| names.has_tunnels);
    let Some(hub) = opened(&entrance, tun, watch).await? else {
        return Ok(());
    };
    let listener = entrance.rules.name.clone();
    let devices = &entrance.worker.shared.clone().devices;
    devices.listens(&listener, &hub);
    let own = watch.clone();
    let minded = hub.clone();
    watch.spawn(async move { mind(&minded, &own).await });

    watch.spawn(named::serve(entrance.clone(), hub.clone(), watch.clone()));

    if !has_tunnels {
        tokio::select! {
            () = hub.closed() => {}
            () = watch.graceful() => {}
        }
    } else if hub.is_split() {
        split::serve(&mut entrance, &hub, watch).await;
    } else {
        device_tunnel::keep(&mut entrance, &hub, watch).await;
    }
    // Connections to names go on for a while where the node ends, and not where there is to be another device.
    if hub.names().is_some() && entrance.worker.shared.drain.is_draining() {
        hub.closed().await;
    }
    devices.leaves(&listener, &hub);
    hub.close();
    Ok(())
}

/// Opens the device of a listener; none: the listener ends before.
///
/// # Errors
/// There is no device. One on another machine is tried again: what it takes may be that of a listener which is about to end.
async fn opened(
    entrance: &Entrance,
    tun: ListenerTun,
    watch: &Watch,
) -> io::Result<Option<Arc<TunHub>>> {
    let mut pause = PAUSE;
    let mut said = None;
    let devices = &entrance.worker.shared.devices;
    let listener = &entrance.rules.name;
    let port = tun.wireguard.as_ref();
    let port = port.and_then(|wireguard| wireguard.listen.socket_address());
    loop {
        let reason = match open(entrance, tun.clone()) {
            Ok(hub) => return Ok(Some(hub)),
            Err(reason) => reason,
        };
        devices.lacks(listener, &tun.settings.name, &reason);
        if tun.wireguard.is_none() {
            return Err(io::Error::other(reason));
        }
        // The first time it may be over at once.
        if pause > PAUSE && said.as_ref() != Some(&reason) {
            tracing::error!(device = tun.settings.name, "{reason}");
            said = Some(reason);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = devices.ports().freed(port.as_slice()) => {}
            () = watch.graceful() => {
                devices.wants_none(listener);
                return Ok(None);
            }
        }
    }
}

/// What is led to the device: errors about packets come from there.
fn led(tun: &ListenerTun, details: Option<&TunDetails>) -> Vec<IpPrefix> {
    let mut routes: Vec<IpPrefix> = tun.settings.routes.iter().filter_map(prefix_of).collect();
    let tunnels = details.map(|details| &details.tunnels);
    let tunnels = tunnels.into_iter().flat_map(|tunnels| tunnels.values());
    let split = tunnels.flat_map(|tunnel| tunnel.prefixes.iter());
    routes.extend(split.filter_map(prefix_of));
    if tun.wireguard.is_some() {
        // The other machine believes errors only from where it sends packets to, which is the network of its address as well.
        let networks = tun.settings.addresses.iter().map(ipnet::IpNet::trunc);
        let networks = networks.filter(|net| net.prefix_len() < net.max_prefix_len());
        routes.extend(networks.filter_map(|net| prefix_of(&net)));
    }
    routes
}

fn open(entrance: &Entrance, tun: ListenerTun) -> Result<Arc<TunHub>, String> {
    let details = entrance.rules.config.tun().and_then(|tun| tun.details());
    let configured = details.map_or(&[][..], |details| &details.addresses);
    let tunnels = details.map(|details| &details.tunnels);
    let host = |net: &ipnet::IpNet| IpPrefix::host(net.addr());
    let addresses = configured.iter().map(host).collect();
    let routes = led(&tun, details);

    let names = tun.names.as_ref();
    let pools = entrance.worker.shared.devices.pools();
    let names = names.map(|names| named_hosts(names, &tun.settings, pools));
    let client = TunClient::new(addresses, tun.other, &routes)
        .super_packets(tun.super_packets)
        .names(names.transpose()?);
    let client = match tunnels.is_some_and(|tunnels| !tunnels.is_empty()) {
        true => client.sharing(tun.other),
        false => client,
    };
    let service = TunService::Client(client);
    if let Some(wireguard) = &tun.wireguard {
        let TunSettings { addresses, mtu, .. } = &tun.settings;
        let remote = remote_device::settings(wireguard, addresses, *mtu)?;
        let ports = entrance.worker.shared.devices.ports();
        return TunHub::on_another_machine(tun.settings, service, (ports, remote));
    }
    if !tun.is_stack {
        let workers = entrance.worker.shared.devices.workers();
        return TunHub::open(tun.settings, service, workers);
    }
    let stack = StackSettings {
        mtu: tun.settings.mtu as usize,
        intercepts: false,
        ..StackSettings::default()
    };
    let stack = StackDeviceSettings {
        stack,
        datagrams: DATAGRAMS,
    };
    Ok(TunHub::in_user_space(tun.settings, service, stack))
}

/// The names behind a device.
fn named_hosts(
    names: &ListenerNames,
    device: &TunSettings,
    pools: &Arc<NodePools>,
) -> Result<Arc<NamedHosts>, String> {
    let stack = StackSettings {
        mtu: device.mtu as usize,
        echo: names.echo,
        ..StackSettings::default()
    };
    let hosts = NamedHosts::new(&names.pool, stack, DATAGRAMS, pools);
    hosts.map_err(|error| error.to_string())
}
