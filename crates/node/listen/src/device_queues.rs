//! Reads the TUN devices: each worker has a queue of each. The ports to devices on other machines are read by one.

use std::sync::{Arc, Weak};

use hermes_admit::worker::Worker;
use hermes_net::Watch;
use hermes_packet::tun::{ClaimedQueue, TunHub, WireguardPort, WireguardPorts};

/// Takes a queue of each device that there is or will be, and reads it, until told to stop.
pub(crate) async fn read(worker: Arc<Worker>, watch: Watch) {
    let devices = &worker.shared.devices;
    let mut opened = devices.opened();
    let mut known: Vec<Weak<TunHub>> = Vec::new();
    loop {
        // Weak: a worker must not keep a device open that was closed.
        known.retain(|hub| hub.strong_count() > 0);
        for hub in devices.hubs() {
            let is_known = |one: &Weak<TunHub>| std::ptr::eq(one.as_ptr(), Arc::as_ptr(&hub));
            if !known.iter().any(is_known) {
                known.push(Arc::downgrade(&hub));
                claim(hub, &watch);
            }
        }
        claim_ports(devices.ports(), &watch);
        tokio::select! {
            changed = opened.changed() => if changed.is_err() { return },
            () = watch.graceful() => return,
        }
    }
}

/// Takes a queue of a device, if one is left.
fn claim(hub: Arc<TunHub>, watch: &Watch) {
    match hub.claim() {
        Ok(Some(queue)) => {
            watch.spawn(async move { read_queue(&hub, &queue).await });
        }
        Ok(None) => {}
        Err(error) => {
            tracing::error!(device = hub.name(), %error, "a queue of the device cannot be read");
            hub.close();
        }
    }
}

/// Takes the ports that no worker reads.
fn claim_ports(ports: &WireguardPorts, watch: &Watch) {
    loop {
        match ports.claim() {
            Ok(Some(port)) => {
                watch.spawn(async move { read_port(&port).await });
            }
            Ok(None) => return,
            Err(error) => tracing::error!(%error, "a port of WireGuard cannot be read"),
        }
    }
}

async fn read_port(port: &WireguardPort) {
    if let Err(error) = port.read().await {
        tracing::error!(address = %port.address(), %error, "the port of WireGuard failed");
    }
}

async fn read_queue(hub: &TunHub, queue: &ClaimedQueue) {
    tokio::select! {
        failed = hub.read(queue) => {
            if let Err(error) = failed {
                tracing::error!(device = hub.name(), %error, "the device is gone");
            }
            hub.close();
        }
        () = hub.closed() => {}
    }
}
