//! How a client of a stack sees that its flow was refused: as its target, or a router on the way to it, would have refused it.

use hermes_http::RefusalReason;
use hermes_proto::ip::IcmpError;
use hermes_proto::proxy_status::ProxyError;
use hermes_stack::FlowRefusal;
use http::StatusCode;

/// The refusal for this reason, which may be that of a proxy many hops away (RFC 9209, section 2.3).
pub(super) fn of_reason(reason: &RefusalReason) -> FlowRefusal {
    use ProxyError as Error;
    match reason.error {
        // No one answered in time: a client hears nothing of its own packets either, and has a time-out of its own.
        Error::ConnectionTimeout
        | Error::ConnectionReadTimeout
        | Error::ConnectionWriteTimeout
        | Error::HttpResponseTimeout
        | Error::DnsTimeout => FlowRefusal::Silence,
        // Want of room here is told at once: errors of ICMP are few, and a client without one waits.
        Error::ConnectionRefused | Error::ConnectionLimitReached => FlowRefusal::Reset,
        Error::DestinationIpProhibited | Error::HttpRequestDenied => {
            FlowRefusal::Error(IcmpError::Prohibited)
        }
        Error::DestinationIpUnroutable
        | Error::DestinationNotFound
        | Error::DestinationUnavailable
        | Error::DnsError => FlowRefusal::Error(IcmpError::HostUnreachable),
        Error::ProxyLoopDetected => FlowRefusal::Error(IcmpError::HopLimitExceeded),
        _ => of_status(reason.status),
    }
}

/// The refusal for a status alone: of a proxy that says no more.
pub(super) fn of_status(status: StatusCode) -> FlowRefusal {
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED => FlowRefusal::Error(IcmpError::Prohibited),
        StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE => {
            FlowRefusal::Error(IcmpError::HostUnreachable)
        }
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => FlowRefusal::Silence,
        _ => FlowRefusal::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_proxy_s_reason_counts_before_its_status() {
        let of = |error, status| {
            of_reason(&RefusalReason {
                status,
                error,
                details: String::new(),
            })
        };
        let gateway = StatusCode::BAD_GATEWAY;
        let prohibited = FlowRefusal::Error(IcmpError::Prohibited);
        assert_eq!(
            of(ProxyError::ConnectionRefused, gateway),
            FlowRefusal::Reset
        );
        assert_eq!(
            of(ProxyError::ConnectionTimeout, gateway),
            FlowRefusal::Silence
        );
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(
            of(ProxyError::ConnectionLimitReached, busy),
            FlowRefusal::Reset
        );
        assert_eq!(of(ProxyError::DestinationIpProhibited, gateway), prohibited);
        assert_eq!(
            of(ProxyError::HttpRequestError, StatusCode::FORBIDDEN),
            prohibited
        );
        assert_eq!(
            of(ProxyError::ProxyInternalError, gateway),
            FlowRefusal::Reset
        );
    }
}
