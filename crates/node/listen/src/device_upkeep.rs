//! Opens the TUN devices where routes end, and keeps them: there from the start on, whether or not a tunnel leads there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::devices::{Devices, WantedEnd, described, wanted};
use hermes_admit::remote_device;
use hermes_admit::worker::Worker;
use hermes_config::model::{self, InterceptedEcho, PacketTermination, Terminate};
use hermes_net::Watch;
use hermes_net::os::forwarded_families;
use hermes_net::tun::{MAX_QUEUES, TunSettings};
use hermes_packet::Bounds;
use hermes_packet::tun::{StackDeviceSettings, TunHub, TunProxy, TunService};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;
use hermes_stack::{EchoHandling, StackSettings};
use ipnet::IpNet;

use crate::device_leases;

/// The MTU of devices for which none is configured: that of Ethernet, as servers behind them expect.
pub(crate) const MTU: u16 = 1500;

/// After which time a device that could not be had, or is gone, is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// How often to look whether a device is still there.
const LOOK: Duration = Duration::from_secs(1);

/// How often a device of a node that drains looks whether its tunnels have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// Bounds of the datagrams of one flow that wait until its listener or route is known.
#[doc(alias = "bound")]
pub(crate) const DATAGRAMS: Bounds = Bounds {
    bytes: 16 * 1024,
    age: Duration::from_secs(5),
};

/// Keeps the devices of the configuration in force until told to stop, on the first worker that runs this.
pub(crate) async fn keep(worker: Arc<Worker>, watch: Watch) {
    let shared = worker.shared.clone();
    if !shared.devices.begin_upkeep() {
        return;
    }

    let mut revision = shared.revision.subscribe();
    loop {
        let snapshot = worker.snapshot();
        let wanted = wanted(&snapshot.document);
        let terminates: Vec<&Terminate> = wanted.iter().map(|end| end.terminate).collect();
        shared.devices.leave(&terminates);
        let is_missing = |end: &WantedEnd<'_>| shared.devices.is_missing(&end.packets.name());
        for end in wanted.iter().filter(|end| is_missing(end)) {
            let leases = device_leases::read(end.packets).await;
            open(&worker, end, leases, &watch);
        }

        let is_short = wanted.iter().any(is_missing);
        let ports = ports(&wanted);
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if is_short => {}
            () = shared.devices.ports().freed(&ports), if is_short => {}
            // One that is gone is noticed by its tunnels, and here.
            () = gone(&worker, &wanted), if !is_short && !wanted.is_empty() => {}
            () = watch.graceful() => return,
        }
    }
}

/// The ports of WireGuard that these devices are behind.
fn ports(wanted: &[WantedEnd<'_>]) -> Vec<SocketAddr> {
    let wireguard = wanted.iter().filter_map(|end| end.packets.wireguard());
    wireguard
        .filter_map(|wireguard| wireguard.listen.socket_address())
        .collect()
}

/// Resolves when one of these devices is gone.
async fn gone(worker: &Worker, wanted: &[WantedEnd<'_>]) {
    let hubs = wanted
        .iter()
        .filter_map(|end| worker.shared.devices.hub(end.packets).ok());
    let hubs: Vec<Arc<TunHub>> = hubs.collect();
    while hubs.iter().all(|hub| !hub.is_closed()) {
        tokio::time::sleep(LOOK).await;
    }
    for end in wanted {
        let is_closed = worker
            .shared
            .devices
            .hub(end.packets)
            .is_ok_and(|hub| hub.is_closed());
        if is_closed {
            let reason = format!("{}: it is gone", described(end.packets));
            worker.shared.devices.enter(end, Err(reason));
        }
    }
}

fn open(
    worker: &Arc<Worker>,
    end: &WantedEnd<'_>,
    leases: Result<Option<String>, String>,
    watch: &Watch,
) {
    let packets = end.packets;
    let hub = leases.and_then(|leases| make(packets, leases.as_deref(), &worker.shared.devices));
    let said = hub.as_ref().map(|_| ()).map_err(Clone::clone);
    if let Ok(hub) = &hub {
        if let Some(file) = packets.leases_file() {
            let file = file.0.clone();
            let hub = hub.clone();
            watch.spawn(async move { device_leases::keep(&hub, file).await });
        }
        let hub = hub.clone();
        let own = watch.clone();
        watch.spawn(async move { mind(&hub, &own).await });
    }

    let is_news = worker.shared.devices.enter(end, hub);
    match said {
        Ok(()) => {
            tracing::info!(device = %packets.name(), "takes packets of tunnels");
            if let PacketTermination::Tun(end) = packets {
                warn_of_no_forwarding(end);
            }
        }
        Err(reason) if is_news => tracing::error!("{reason}"),
        Err(_) => {}
    }
}

/// What is translated to the addresses of this machine does not leave a machine that forwards nothing.
fn warn_of_no_forwarding(end: &model::TerminateTun) {
    let forwarded = forwarded_families();
    let is_needed = |is_ipv4| end.nat && end.pool.iter().any(|one| one.addr().is_ipv4() == is_ipv4);
    if is_needed(true) && !forwarded.v4 {
        tracing::warn!(
            device = end.tun,
            "`nat`, but this machine does not forward IPv4: sysctl -w net.ipv4.ip_forward=1"
        );
    }
    if is_needed(false) && !forwarded.v6 {
        tracing::warn!(
            device = end.tun,
            "`nat`, but this machine does not forward IPv6: sysctl -w net.ipv6.conf.all.forwarding=1"
        );
    }
}

/// Closes a device when it is gone or left; on a node that drains, when its tunnels, and connections to its names, have ended.
pub(crate) async fn mind(hub: &TunHub, watch: &Watch) {
    tokio::select! {
        () = deleted(hub) => tracing::error!(device = hub.name(), "the device was deleted"),
        () = hub.closed() => {}
        never = hub.keep_time() => match never {},
        () = watch.forced() => {}
        () = async {
            watch.graceful().await;
            while hub.is_in_use() {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        } => {}
    }
    hub.close();
}

/// Resolves when someone has deleted the device.
async fn deleted(hub: &TunHub) {
    while hub.is_there() {
        tokio::time::sleep(LOOK).await;
    }
}

fn echo_handling(echo: InterceptedEcho) -> EchoHandling {
    match echo {
        InterceptedEcho::Answer => EchoHandling::Answer,
        InterceptedEcho::Forward => EchoHandling::Ask,
        InterceptedEcho::Refuse => EchoHandling::HandOn,
    }
}

/// Settings that every kind of device has.
fn general_settings(end: PacketTermination<'_>) -> TunSettings {
    let mtu = end.mtu();
    TunSettings {
        name: end.name().into_owned(),
        queues: 1,
        mtu: mtu
            .unwrap_or_else(|| remote_device::default_mtu(end, MTU))
            .into(),
        addresses: Vec::new(),
        routes: Vec::new(),
        past: None,
        masquerade: false,
    }
}

fn make(
    end: PacketTermination<'_>,
    leases: Option<&str>,
    devices: &Devices,
) -> Result<Arc<TunHub>, String> {
    let pool: Vec<IpPrefix> = end.pool().iter().filter_map(prefix_of).collect();
    let routes: Vec<IpPrefix> = end.routes().iter().filter_map(prefix_of).collect();
    let service = TunProxy::new(&pool, &routes).map_err(|error| error.to_string())?;
    let service = match end {
        PacketTermination::Tun(end) => service
            .client_to_client(end.client_to_client)
            .super_packets(end.super_packets),
        PacketTermination::Intercept(_) => service,
    };
    let service = service.among(devices.pools());
    if let (Some(file), Some(text)) = (end.leases_file(), leases) {
        device_leases::restore(&service, &file.0, text)?;
    }

    let settings = general_settings(end);
    let service = TunService::Proxy(Box::new(service));
    if let Some(wireguard) = end.wireguard() {
        let remote = remote_device::settings(wireguard, &[], settings.mtu)?;
        return TunHub::on_another_machine(settings, service, (devices.ports(), remote));
    }
    match end {
        PacketTermination::Tun(end) => {
            let own = |prefix: &IpPrefix| {
                let address = TunProxy::device_address(*prefix);
                IpNet::new(address, prefix.length()).ok()
            };
            let settings = TunSettings {
                addresses: pool.iter().filter_map(own).collect(),
                masquerade: end.nat,
                queues: end.queues.map_or(MAX_QUEUES, usize::from),
                ..settings
            };
            TunHub::open(settings, service, devices.workers())
        }
        PacketTermination::Intercept(end) => {
            let stack = StackSettings {
                mtu: settings.mtu as usize,
                echo: echo_handling(end.echo.unwrap_or(InterceptedEcho::Answer)),
                ..StackSettings::default()
            };
            let stack = StackDeviceSettings {
                stack,
                datagrams: DATAGRAMS,
            };
            Ok(TunHub::in_user_space(settings, service, stack))
        }
    }
}
