//! `tun` listeners: the packets that this machine sends into a device become one CONNECT-IP exchange, or several (`split.rs`).
//!
//! The exchange is an ordinary one: it is routed by its fields and its user, and where it goes its capsules go. When it ends, or no one
//! takes it, another is begun after a pause; the device, its addresses and its routes stay meanwhile.

use std::io;
use std::sync::Arc;

use hermes_admit::entrance::Entrance;
use hermes_config::model::Tun;
use hermes_net::Watch;
use hermes_packet::tun::TunHub;
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;

use super::device_spec::{DeviceSpec, ServiceSpec};
use super::device_tunnel::{self, LONGEST, PAUSE};
use super::{named, split};
use crate::device_upkeep::mind;

/// Keeps a tunnel for the packets of a device until told to stop.
pub(super) async fn serve(
    mut entrance: Entrance,
    spec: &DeviceSpec,
    watch: &Watch,
) -> io::Result<()> {
    entrance.renew();
    let keeps_tunnels = match &spec.service {
        ServiceSpec::Client(client) => client.keeps_tunnels,
        ServiceSpec::Proxy(_) => false,
    };
    let Some(hub) = opened(&entrance, spec, watch).await? else {
        return Ok(());
    };
    let listener = entrance.rules.name.clone();
    let devices = &entrance.worker.shared.clone().devices;
    devices.listens(&listener, &hub);
    let own = watch.clone();
    let minded = hub.clone();
    watch.spawn(async move { mind(&minded, &own).await });

    watch.spawn(named::serve(entrance.clone(), hub.clone(), watch.clone()));

    if !keeps_tunnels {
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

/// Opens the device of a listener; `None`: the listener ends before.
///
/// # Errors
/// There is no device. One on another machine is tried again: the port may be that of a listener which is about to end. So is one that an
/// earlier process has still.
async fn opened(
    entrance: &Entrance,
    spec: &DeviceSpec,
    watch: &Watch,
) -> io::Result<Option<Arc<TunHub>>> {
    let mut pause = PAUSE;
    let mut said = None;
    let devices = &entrance.worker.shared.devices;
    let listener = &entrance.rules.name;
    let name = spec.settings.name.as_str();
    let names = [name];
    let port = spec.port();
    loop {
        let reason = match spec.open(&led(entrance), None, devices) {
            Ok(hub) => return Ok(Some(hub)),
            Err(reason) => reason,
        };
        devices.lacks(listener, name, &reason);
        if port.is_none() && !devices.passed().is_waiting(name) {
            return Err(io::Error::other(reason));
        }
        // The first time it may be over at once.
        if pause > PAUSE && said.as_ref() != Some(&reason) {
            tracing::error!(device = name, "{reason}");
            said = Some(reason);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = devices.freed(port.as_slice(), &names) => {}
            () = watch.graceful() => {
                devices.wants_none(listener);
                return Ok(None);
            }
        }
    }
}

/// The prefixes of the device's tunnels, where it has several.
fn led(entrance: &Entrance) -> Vec<IpPrefix> {
    let tunnels = entrance
        .rules
        .config
        .tun()
        .into_iter()
        .flat_map(Tun::tunnels);
    let prefixes = tunnels.flat_map(|(_, tunnel)| tunnel.prefixes.iter());
    prefixes.filter_map(prefix_of).collect()
}
