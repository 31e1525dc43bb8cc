//! The traffic that a listener captures, as the machine needs it.

use std::net::SocketAddr;

use hermes_config::model::{
    CaptureCongestion, CaptureFailure, CaptureMode, FlowProtocol, HostCapture,
};
use hermes_net::host_capture::{CaptureMeans, CaptureSettings, RefusedPorts};

use crate::device_spec::in_kernel;

/// The connections of a `tcp` listener whose beginnings are held.
pub(crate) fn split(name: &str, own: SocketAddr) -> CaptureSettings {
    CaptureSettings {
        name: name.to_owned(),
        own: Some(own),
        tcp: true,
        holds: true,
        ..CaptureSettings::default()
    }
}

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
        refused: RefusedPorts {
            udp: refused(FlowProtocol::Udp),
            tcp: refused(FlowProtocol::Tcp),
        },
        own: None,
        fails_closed: capture.fail == CaptureFailure::Closed,
        holds: capture.split,
        means: match capture.mode {
            None => CaptureMeans::Any,
            Some(CaptureMode::Tproxy) => CaptureMeans::Tproxy,
            Some(CaptureMode::Redirect) => CaptureMeans::Redirect,
        },
        congestion: capture.congestion.map(CaptureCongestion::name),
    }
}
