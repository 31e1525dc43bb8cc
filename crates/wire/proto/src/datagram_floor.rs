//! `Hermes-Datagram-Floor`: up to which size datagrams have to arrive even if QUIC datagrams cannot
//! carry them.
//!
//! This field of CONNECT-UDP asks every proxy of the tunnel to write UDP payloads of up to this
//! many bytes as capsules where they do not fit into a QUIC datagram; larger ones are dropped
//! there, as always (RFC 9298, section 6.1). Two kinds of clients need it. One opens a QUIC
//! connection inside the tunnel: QUIC needs packets of 1200 bytes, and learns from their loss which
//! larger ones do not fit. The other is a proxy whose clients send plain UDP: they know nothing of
//! a tunnel, and cannot find out. A node that heeds the field repeats it in the answer.

use http::{HeaderName, HeaderValue};

use crate::datagram::MAX_UDP_PAYLOAD;
use crate::fields::Fields;

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-datagram-floor");

/// The least that a QUIC connection needs, in bytes (RFC 9000, section 14).
pub const QUIC: usize = 1200;

/// The largest floor, in bytes: no UDP payload is larger.
pub const ALL: usize = MAX_UDP_PAYLOAD;

/// The field's value for a floor of this many bytes.
pub fn value(floor: usize) -> HeaderValue {
    HeaderValue::from(floor)
}

/// The floor that a request asks for, in bytes of UDP payload; 0 if the field is absent or
/// malformed.
pub fn of(fields: &Fields) -> usize {
    let value = fields.get(FIELD).and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.trim().parse::<usize>().ok())
        .map_or(0, |floor| floor.min(ALL))
}

/// The field of the answer to a request with these fields: the floor that is heeded, if one was asked for.
pub fn answer(request: &Fields) -> Option<(HeaderName, HeaderValue)> {
    let floor = of(request);
    (floor > 0).then(|| (FIELD, HeaderValue::from(floor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_a_number_of_bytes_up_to_the_most() {
        let of = |value: &'static str| {
            of(&Fields::from_iter([(
                FIELD,
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(
            [
                of("1200"),
                of(" 100 "),
                of("90000"),
                of("-1"),
                of("many"),
                of("")
            ],
            [1200, 100, ALL, 0, 0, 0]
        );
        assert_eq!(super::of(&Fields::new()), 0);
        for floor in [QUIC, ALL] {
            let request = Fields::from_iter([(FIELD, value(floor))]);
            assert_eq!(super::of(&request), floor);
            assert_eq!(
                (answer(&request), answer(&Fields::new())),
                (Some((FIELD, value(floor))), None)
            );
        }
    }
}
