//! `Hermes-Datagram-Recovery`: two nodes agree on a context for frames of recovery.
//!
//! The client of a tunnel says in its request in which context it would send frames, an even one, as it allocates it (RFC 9298, section 4),
//! and the bound of time in milliseconds: `2;within=200`. A proxy at which the tunnel ends, and which takes part, says the same in its
//! response. Without that, no frame is ever sent. The field is a structured field (RFC 9651), an integer with parameters.

use std::time::Duration;

/// The name of the field.
pub const FIELD: &str = "hermes-datagram-recovery";

/// The context that a client of ours offers. Context 2 is the one of super-packets.
pub const CONTEXT: u64 = 4;

/// The longest bound of time: who waits for longer wants a reliable tunnel.
#[doc(alias = "bound")]
pub const LONGEST: Duration = Duration::from_secs(10);

/// The largest context ID (RFC 9298, section 4; RFC 9000, section 16).
const MAX_CONTEXT: u64 = (1 << 62) - 1;

/// The name of the field by which the client of a tunnel asks for groups: datagrams that travel in streams of QUIC, one for each group, where a hop
/// is of HTTP/3. Its value is the bound of time in milliseconds. Each hop agrees for itself, by its settings.
pub const GROUPS_FIELD: &str = "hermes-datagram-groups";

/// The value of [`GROUPS_FIELD`].
pub fn format_groups(within: Duration) -> String {
    within.min(LONGEST).as_millis().to_string()
}

/// The bound of time in a value of [`GROUPS_FIELD`]; `None` for a value that no client may send. Parameters are ignored.
pub fn parse_groups(text: &str) -> Option<Duration> {
    let value = text.split(';').next()?.trim();
    let within = Duration::from_millis(number(value)?);
    (!within.is_zero() && within <= LONGEST).then_some(within)
}

/// The content of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryOffer {
    /// The context of the frames.
    pub context: u64,
    /// How long datagrams may wait for a missing one.
    pub within: Duration,
}

impl RecoveryOffer {
    /// The offer of a client of ours.
    pub fn new(within: Duration) -> Self {
        Self {
            context: CONTEXT,
            within: within.min(LONGEST),
        }
    }

    /// The value of the field.
    pub fn format(&self) -> String {
        format!("{};within={}", self.context, self.within.as_millis())
    }

    /// Reads the value of the field; `None` for one that no client may send. Parameters that are not known are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let context = number(parts.next()?)?;
        let mut within = None;
        for parameter in parts {
            if let Some(("within", value)) = parameter.split_once('=') {
                within = Some(number(value)?);
            }
        }

        let within = Duration::from_millis(within?);
        let is_sound = context != 0 && context.is_multiple_of(2) && context <= MAX_CONTEXT;
        (is_sound && !within.is_zero() && within <= LONGEST).then_some(Self { context, within })
    }
}

/// An integer of a structured field, which is not negative here.
fn number(text: &str) -> Option<u64> {
    let is_number =
        !text.is_empty() && text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_read_as_it_is_written() {
        let offer = RecoveryOffer::new(Duration::from_millis(200));
        assert_eq!(offer.format(), "4;within=200");
        assert_eq!(RecoveryOffer::parse(&offer.format()), Some(offer));
        assert_eq!(RecoveryOffer::parse(" 4 ; x=1; within=200 "), Some(offer));
    }

    #[test]
    fn a_bound_of_groups_is_read_as_it_is_written() {
        let within = Duration::from_millis(300);
        assert_eq!(parse_groups(&format_groups(within)), Some(within));
        assert_eq!(parse_groups(" 300; x=1"), Some(within));
        for text in ["", "0", "10001", "-1", "x", "1, 2"] {
            assert_eq!(parse_groups(text), None, "{text}");
        }
    }

    #[test]
    fn no_offer_is_read_where_a_client_may_make_none() {
        for text in [
            "",
            "4",
            "0;within=200",
            "3;within=200",
            "4;within=0",
            "4;within=10001",
            "4;within=-1",
            "4;within=x",
            "4611686018427387904;within=1",
            "99999999999999999999;within=1",
            "4, 6;within=1",
        ] {
            assert_eq!(RecoveryOffer::parse(text), None, "{text}");
        }
    }
}
