//! A client's network and an origin's, with a link between them that may delay and lose packets.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::emulator::wire::{End, Wire};
use crate::emulator::{Loss, Profile};
use crate::origin::{self, Addresses};
use crate::process::Process;
use crate::topology::{Namespace, Topology};

/// The ends of the link.
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 2);

/// Both networks, the link, and the origin that listens in the far one.
pub(super) struct FaultyCable {
    topology: Topology,
    _wire: Wire,
    _origin: Process,
    pub(super) origin: Addresses,
}

/// The faults of the link, in each direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) delay: Duration,
    /// The share of packets that is lost.
    pub(super) loss: f64,
}

impl FaultyCable {
    /// Lays it.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub(super) fn lay(folder: &Path, faults: Faults, seed: u64) -> Result<Self> {
        let mut topology = Topology::new();
        for name in ["near", "far"] {
            let namespace = topology.add(name)?;
            // The congestion control of QUIC here, as the comparison is not about it.
            let cubic = "net.ipv4.tcp_congestion_control=cubic";
            namespace.run(&["sysctl", "-q", "-w", cubic]).context(
                "a new network may not use CUBIC: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'",
            )?;
        }
        let profile = Profile {
            delay: faults.delay,
            loss: match faults.loss {
                0.0 => Loss::None,
                loss => Loss::Random(loss),
            },
            ..Profile::default()
        };
        let addresses = [NEAR, FAR].map(|address| format!("{address}/24"));
        let end = |name, address| {
            anyhow::Ok(End {
                namespace: topology.namespace(name)?,
                device: "link",
                address,
                profile: &profile,
            })
        };
        let wire = Wire::lay(
            end("near", &addresses[0])?,
            end("far", &addresses[1])?,
            seed,
        )?;

        let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let far = Some(topology.namespace("far")?);
        let (origin_process, origin) = origin::start_in(far, anywhere, folder)?;
        Ok(Self {
            topology,
            _wire: wire,
            _origin: origin_process,
            origin,
        })
    }

    pub(super) fn near(&self) -> Result<&Namespace> {
        self.topology.namespace("near")
    }

    pub(super) fn far(&self) -> Result<&Namespace> {
        self.topology.namespace("far")
    }
}

/// Runs a load in a network, on a thread and a run time of its own.
///
/// # Errors
/// When the network cannot be entered, or the load fails.
pub(super) fn load_in<T: Send>(
    namespace: &Namespace,
    load: impl AsyncFnOnce() -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            namespace.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(load())
        });
        load.join()
            .map_err(|_| anyhow!("the thread of the load panicked"))?
    })
}
