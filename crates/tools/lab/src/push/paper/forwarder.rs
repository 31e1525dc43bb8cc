//! The forwarder of TCP on the indirect path.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Result;

use crate::process::Process;
use crate::push::lane::ForwardedPorts;
use crate::push::side::Side;
use crate::push::systems::listens;

/// Starts a forwarder for each direction, whose connections lead to the ports of these programs.
pub(super) fn start_forwarder(
    side: Side<'_>,
    forwarded: ForwardedPorts,
    ends: [IpAddr; 2],
    folder: &Path,
) -> Result<Process> {
    let ForwardedPorts { entries, ports } = forwarded;
    let way = |direction: usize| {
        let to = SocketAddr::new(ends[direction], ports[direction]);
        format!("plain={}={to}", entries[direction])
    };
    let words = ["forwarder".to_owned(), way(0), way(1)];
    let program = std::env::current_exe()?;
    let mut process = Process::start_in(side.namespace, "forwarder", folder, &program, &words)?;
    for entry in entries {
        listens(&mut process, side, entry)?;
    }
    Ok(process)
}
