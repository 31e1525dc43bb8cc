//! Opens the TUN devices where routes end, and keeps them: there from the start on, whether or not a tunnel leads there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::current_snapshot::CurrentSnapshot;
use hermes_admit::devices::{Devices, WantedEnd, wanted};
use hermes_config::model::{PacketTermination, Terminate, TerminateTun};
use hermes_net::Watch;
use hermes_net::os::forwarded_families;
use hermes_packet::tun::TunHub;

use crate::device_leases;
use crate::device_spec::DeviceSpec;

/// After which time a device that could not be had, or is gone, is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// How often to look whether a device was deleted, which no one tells its reader.
const LOOK: Duration = Duration::from_secs(1);

/// How often a device of a node that drains looks whether its tunnels have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// Keeps the devices of the configuration in force until told to stop. To be called once, inside the runtime of administration.
pub async fn keep(current: Arc<CurrentSnapshot>, devices: Arc<Devices>, watch: Watch) {
    // Before the first load: a change in between wakes the wait below.
    let mut revision = current.subscribe();
    loop {
        let snapshot = current.load_full();
        let wanted = wanted(&snapshot.document);
        let terminates: Vec<&Terminate> = wanted.iter().map(|end| end.terminate).collect();
        devices.leave(&terminates);
        let listeners = snapshot.document.listeners.values();
        let of_listeners: Vec<&str> = listeners
            .filter_map(|one| Some(one.tun()?.name()))
            .collect();
        let is_of_route = |name: &str| wanted.iter().any(|end| end.packets.name() == name);
        devices
            .passed()
            .retain(|name| of_listeners.contains(&name) || is_of_route(name));

        let is_missing = |end: &WantedEnd<'_>| devices.is_missing(&end.packets.name());
        for end in wanted.iter().filter(|end| is_missing(end)) {
            open(&devices, end, &watch).await;
        }

        let missing: Vec<DeviceSpec> = wanted
            .iter()
            .filter(|end| is_missing(end))
            .map(|end| DeviceSpec::of_route(end.packets))
            .collect();
        let ports: Vec<SocketAddr> = missing.iter().filter_map(DeviceSpec::port).collect();
        let names: Vec<&str> = missing
            .iter()
            .map(|spec| spec.settings.name.as_str())
            .collect();
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if !missing.is_empty() => {}
            () = devices.freed(&ports, &names), if !missing.is_empty() => {}
            () = devices.gone() => {}
            () = watch.graceful() => return,
        }
    }
}

async fn open(devices: &Arc<Devices>, end: &WantedEnd<'_>, watch: &Watch) {
    let packets = end.packets;
    let spec = DeviceSpec::of_route(packets);
    let leases = device_leases::read(packets).await;
    let hub = leases.and_then(|leases| spec.open(&[], leases.as_deref(), devices));
    let said = hub.as_ref().map(|_| ()).map_err(Clone::clone);
    if let Ok(hub) = &hub {
        if let Some(file) = packets.leases_file() {
            let file = file.0.clone();
            let hub = hub.clone();
            watch.spawn(async move { device_leases::keep(&hub, file).await });
        }
        let hub = hub.clone();
        let devices = devices.clone();
        let own = watch.clone();
        watch.spawn(async move {
            mind(&hub, &own).await;
            devices.closes(&hub);
        });
    }

    let is_news = devices.enter(end, hub);
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

/// Packets that are translated to the addresses of this machine do not leave a machine that forwards nothing.
fn warn_of_no_forwarding(end: &TerminateTun) {
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
