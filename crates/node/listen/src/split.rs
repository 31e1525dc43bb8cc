//! Several tunnels that split the packets of one device by destination: each is an exchange of its own, with its own fields.
//!
//! A change of the configuration opens and ends those that came and went, and leads prefixes elsewhere. That one has other fields is nothing
//! to do here: an open tunnel is re-evaluated, and moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_admit::entrance::Entrance;
use hermes_admit::snapshot::ListenerRules;
use hermes_config::model::Tun;
use hermes_net::{Drain, Watch};
use hermes_packet::tun::{SplitPrefixes, TunHub};
use hermes_rules::packets::prefix_of;
use tokio::task::JoinHandle;

use super::device_tunnel;

/// A tunnel that is kept.
struct KeptTunnel {
    drain: Drain,
    task: JoinHandle<()>,
}

/// Keeps the tunnels of a device until told to stop.
pub(super) async fn serve(entrance: &mut Entrance, hub: &Arc<TunHub>, watch: &Watch) {
    let mut revision = entrance.worker.shared.snapshot.subscribe();
    let mut kept = BTreeMap::new();
    loop {
        let rules = entrance.renew().clone();
        let wanted = wanted(&rules);
        // A listener that is gone, or of another kind, is about to drain.
        if !wanted.is_empty() {
            follow(entrance, hub, &wanted, &mut kept, watch);
        }
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { break },
            () = hub.closed() => break,
            () = watch.graceful() => break,
        }
    }
    for (_, tunnel) in kept {
        // One that panicked has ended, too.
        let _ = tunnel.task.await;
    }
}

/// The tunnels that the configuration wants, with their prefixes.
fn wanted(rules: &ListenerRules) -> Vec<SplitPrefixes> {
    let tunnels = rules.config.tun().into_iter().flat_map(Tun::tunnels);
    let split = tunnels.map(|(name, tunnel)| SplitPrefixes {
        tunnel: name.into(),
        prefixes: tunnel.prefixes.iter().filter_map(prefix_of).collect(),
    });
    split.collect()
}

/// Follows a change of the tunnels that are wanted.
fn follow(
    entrance: &Entrance,
    hub: &Arc<TunHub>,
    wanted: &[SplitPrefixes],
    kept: &mut BTreeMap<Arc<str>, KeptTunnel>,
    watch: &Watch,
) {
    // Routes first: packets for a tunnel that goes would else still be sent to it.
    if hub.split() != wanted
        && let Err(error) = hub.set_split(wanted)
    {
        let device = hub.name();
        tracing::error!(device, %error, "prefixes are not routed to their tunnels");
    }

    let listener = &entrance.rules.name;
    let devices = &entrance.worker.shared.devices;
    kept.retain(|name, tunnel| {
        let stays = wanted.iter().any(|one| one.tunnel == *name);
        if !stays {
            tunnel.drain.start();
            devices.forget_tunnel(listener, name);
        }
        stays
    });
    for one in wanted {
        if !kept.contains_key(&one.tunnel) {
            let tunnel = begin(entrance, hub, &one.tunnel, watch);
            kept.insert(one.tunnel.clone(), tunnel);
        }
    }
}

fn begin(entrance: &Entrance, hub: &Arc<TunHub>, name: &Arc<str>, watch: &Watch) -> KeptTunnel {
    let drain = watch.child();
    let own = drain.watch();
    let mut entrance = entrance.for_tunnel(name);
    let hub = hub.clone();
    let task = drain.watch().spawn(async move {
        Box::pin(device_tunnel::keep(&mut entrance, &hub, &own)).await;
    });
    KeptTunnel { drain, task }
}
