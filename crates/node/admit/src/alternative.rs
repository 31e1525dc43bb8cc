//! `Alt-Svc` (RFC 7838): a gateway that speaks HTTP/3 too says so where it does not.

use hermes_config::model::{AltSvc, HttpVersion};
use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue};

use crate::routed::Routed;

const ALT_SVC: HeaderName = HeaderName::from_static("alt-svc");

/// How long clients may remember it, in seconds: a day, the default of RFC 7838, section 3.1.
const REMEMBERED: u32 = 86_400;

/// Tells a client that came over TLS and TCP that the same port serves HTTP/3, or the one at which it is reached from outside. Only a gateway may: what a forward proxy passes on
/// speaks for its origin. For the same reason a gateway removes the field of the servers behind it.
pub fn advertise(routed: &Routed, fields: &mut Fields) {
    if !routed.listener.config.is_gateway() {
        return;
    }
    fields.remove(ALT_SVC);
    let tls = routed.source.tls.as_ref();
    let over_tcp = tls.is_some_and(|tls| tls.alpn.as_deref() != Some(hermes_net::quic::ALPN));
    let Some(local) = routed.source.local.filter(|_| over_tcp) else {
        return;
    };

    let stated = routed.listener.config.http().and_then(|http| http.alt_svc);
    let port = match stated {
        Some(AltSvc::Switch(false)) => return,
        Some(AltSvc::Port(outside)) => outside,
        Some(AltSvc::Switch(true)) | None => local.port(),
    };
    if routed.listener.http.versions.contains(&HttpVersion::H3)
        && let Ok(value) = HeaderValue::from_str(&format!("h3=\":{port}\"; ma={REMEMBERED}"))
    {
        fields.insert(ALT_SVC, value);
    }
}
