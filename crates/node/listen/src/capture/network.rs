//! The network namespace of a pod or a container: the node enters it for as long as it takes to make a device there, as ztunnel does, and
//! carries the traffic from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_admit::captures::CapturedBy;
use hermes_admit::entrance::Entrance;
use hermes_config::model::Capture;
use hermes_net::Watch;
use hermes_net::capture::CapturedSpace;
use hermes_net::network::Network;
use hermes_net::tun::TunQueue;
use tokio::task::spawn_blocking;

use super::{Captured, space};
use crate::named::FlowSource;

/// The pause after which a namespace that is not there is looked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// How often to look whether another namespace has the path: that of a pod that was started again.
const LOOK: Duration = Duration::from_secs(1);

/// The namespace that a listener wants to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Its path.
    pub(crate) path: PathBuf,
    capture: Capture,
}

/// A namespace, as the kernel tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NamespaceId {
    device: u64,
    inode: u64,
}

impl NetworkSpec {
    /// That of a listener, if it captures one.
    pub(crate) fn of(capture: &Capture) -> Option<Self> {
        Some(Self {
            path: capture.network.as_ref()?.0.clone(),
            capture: capture.clone(),
        })
    }
}

/// Captures a namespace until told to stop; whenever there is another one at its path, that one.
pub(crate) async fn serve(
    mut entrance: Entrance,
    spec: &NetworkSpec,
    watch: &Watch,
) -> io::Result<()> {
    let mut pause = PAUSE;
    let mut said: Option<String> = None;
    loop {
        entrance.renew();
        let ended = tokio::select! {
            ended = capture(&entrance, spec, watch) => ended,
            () = watch.graceful() => return Ok(()),
        };
        let path = spec.path.display();
        match ended {
            Ok(reason) => {
                tracing::info!(listener = %entrance.rules.name, network = %path, reason, "the captured network is left");
                (pause, said) = (PAUSE, None);
            }
            Err(error) => {
                let reason = error.to_string();
                if said.as_ref() != Some(&reason) {
                    tracing::error!(listener = %entrance.rules.name, network = %path, "the network is not captured: {reason}");
                    said = Some(reason);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = watch.graceful() => return Ok(()),
        }
    }
}

async fn capture(entrance: &Entrance, spec: &NetworkSpec, watch: &Watch) -> io::Result<String> {
    let path = spec.path.clone();
    let space = space(&spec.capture);
    let made = spawn_blocking(move || make(&path, &space)).await;
    let (namespace, queue) = made.map_err(io::Error::other)??;

    let listener = &entrance.rules.name;
    let captures = entrance.worker.shared.devices.captures();
    let entry = captures.enter(listener, CapturedBy::Network(spec.path.clone()));
    let entry = entry.map_err(io::Error::other)?;
    tracing::info!(%listener, network = %spec.path.display(), "captures the network");
    let captured = Captured::new(entrance.clone(), FlowSource::Itself, &spec.capture);
    let replaced = replaced(&spec.path, namespace);
    captured.carry(queue, &entry, watch, replaced).await
}

/// Makes the device in a namespace.
fn make(path: &Path, space: &CapturedSpace) -> io::Result<(NamespaceId, TunQueue)> {
    let file = File::open(path)?;
    let namespace = NamespaceId::of(&file.metadata()?);
    let network = Network::of(file)?;
    let device = network.within(|| space.make_device())?;
    let device = device.map_err(|error| {
        let remedy = error.remedy.map(|remedy| format!("; {remedy}"));
        io::Error::other(format!("{error}{}", remedy.unwrap_or_default()))
    })?;
    Ok((namespace, TunQueue::own(device)))
}

/// Resolves when there is no such namespace at the path any more. The device keeps the old one alive until then.
async fn replaced(path: &Path, namespace: NamespaceId) {
    loop {
        tokio::time::sleep(LOOK).await;
        let path = path.to_owned();
        let found = spawn_blocking(move || std::fs::metadata(path)).await;
        let is_same = |found: std::fs::Metadata| NamespaceId::of(&found) == namespace;
        if !found.is_ok_and(|found| found.is_ok_and(is_same)) {
            return;
        }
    }
}

impl NamespaceId {
    fn of(found: &std::fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}
