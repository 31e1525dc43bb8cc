//! The proof that a relay may hand a channel over: a MAC, by a key that both have, over the channel, its position, and a time.
//!
//! Without it, anyone could begin a channel at numbers of his choice, and have subscribers take its messages for old ones.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_proto::relay::Position;

/// Seconds for which a grant is good.
const LASTS: u64 = 60;

/// A key that relays share.
#[derive(Clone)]
pub(crate) struct GrantKey(hmac::Key);

/// The content of a grant.
pub(crate) struct Grant<'a> {
    /// The channel, by the key that it has at the relay that takes it over.
    pub(crate) channel: &'a str,
    pub(crate) at: Position,
}

impl GrantKey {
    pub(crate) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Makes a grant at this time, in seconds since 1970.
    pub(crate) fn make(&self, grant: &Grant<'_>, now: u64) -> String {
        let until = now + LASTS;
        let mac = URL_SAFE_NO_PAD.encode(self.mac(grant, until));
        format!("{until}.{mac}")
    }

    /// Whether this is a grant for that, and still good.
    pub(crate) fn is_good(&self, text: &str, grant: &Grant<'_>, now: u64) -> bool {
        let Some((until, mac)) = text.split_once('.') else {
            return false;
        };
        let (Ok(until), Ok(mac)) = (until.parse::<u64>(), URL_SAFE_NO_PAD.decode(mac)) else {
            return false;
        };
        // Clocks differ: one that is ahead makes grants that last longer here, but not for ever.
        let is_now = (now..=now + 2 * LASTS).contains(&until);
        is_now && verify_slices_are_equal(&self.mac(grant, until), &mac).is_ok()
    }

    /// The MAC of a text for this purpose, in base64url.
    pub(crate) fn mac_of(&self, purpose: &str, text: &str) -> String {
        let text = format!("{purpose}\n{text}");
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, text.as_bytes()).as_ref())
    }

    /// Whether this is that MAC.
    pub(crate) fn has_made(&self, mac: &str, purpose: &str, text: &str) -> bool {
        let Ok(mac) = URL_SAFE_NO_PAD.decode(mac) else {
            return false;
        };
        let text = format!("{purpose}\n{text}");
        hmac::verify(&self.0, text.as_bytes(), &mac).is_ok()
    }

    fn mac(&self, grant: &Grant<'_>, until: u64) -> Vec<u8> {
        // No part contains a line end, so that no two grants have the same text.
        let text = format!(
            "hermes relay move\n{until}\n{}\n{}",
            grant.at, grant.channel
        );
        hmac::sign(&self.0, text.as_bytes()).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_for_one_channel_one_position_and_a_minute() {
        let key = GrantKey::new("secret");
        let at = |sequence| Position { epoch: 1, sequence };
        let grant = Grant {
            channel: "hub:80/c",
            at: at(7),
        };
        let made = key.make(&grant, 1000);
        assert!(key.is_good(&made, &grant, 1000));
        assert!(key.is_good(&made, &grant, 1060));
        assert!(!key.is_good(&made, &grant, 1061));
        assert!(!key.is_good(&made, &grant, 100));
        let other = |channel, at| Grant { channel, at };
        assert!(!key.is_good(&made, &other("hub:80/d", at(7)), 1000));
        assert!(!key.is_good(&made, &other("hub:80/c", at(8)), 1000));
        assert!(!GrantKey::new("other").is_good(&made, &grant, 1000));
        assert!(!key.is_good("1060", &grant, 1000));
        assert!(!key.is_good(&made.replace("1060", "1061"), &grant, 1000));
    }
}
