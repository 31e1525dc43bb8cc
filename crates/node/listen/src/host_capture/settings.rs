//! The traffic that a listener captures, as the machine needs it.

use hermes_config::model::{CaptureCongestion, CaptureFailure, FlowProtocol, HostCapture};
use hermes_net::host_capture::CaptureSettings;

use crate::device_spec::in_kernel;

/// Of the listener of this name.
pub(crate) fn captured(name: &str, capture: &HostCapture) -> CaptureSettings {
    let refused = |protocol: FlowProtocol| {
        let ports = capture.refuse.iter();
        let ports = ports.filter(move |one| one.protocol == protocol);
        ports.map(|one| one.port).collect()
    };
    CaptureSettings {
        name: name.to_owned(),
        interfaces: capture.interfaces.to_vec(),
        senders: capture.only.as_ref().map(in_kernel).unwrap_or_default(),
        except: capture.exclude.clone(),
        tcp: capture.takes(FlowProtocol::Tcp),
        udp: capture.takes(FlowProtocol::Udp),
        refused_udp: refused(FlowProtocol::Udp),
        refused_tcp: refused(FlowProtocol::Tcp),
        fails_closed: capture.fail == CaptureFailure::Closed,
        holds: capture.split,
        congestion: capture.congestion.map(CaptureCongestion::name),
    }
}
