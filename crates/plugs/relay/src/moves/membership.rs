//! The part of a relay among those of a rendezvous: its heartbeats, and the grants by which clients come.

use std::time::Duration;

use super::GrantKey;

/// Seconds for which a grant is good: a client that comes later asks the rendezvous again.
const LASTS: u64 = 600;

/// The purpose of the MAC of a grant.
const GRANT: &str = "hermes relay grant";

/// The purpose of the MAC of a heartbeat.
const HEARTBEAT: &str = "hermes relay heartbeat";

/// The part of a relay.
pub(crate) struct Membership {
    /// Its host and port, as clients reach it.
    pub(crate) at: String,
    /// The hosts and ports of the nodes that send clients here.
    pub(crate) rendezvous: Vec<String>,
    pub(crate) key: GrantKey,
    pub(crate) beat: Duration,
    /// Whether clients come with a grant only.
    pub(crate) needs_grants: bool,
}

/// Whether a client may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantCheck {
    Good,
    /// It has none, or one that is too old: the rendezvous gives another.
    None,
    /// It has one that no rendezvous gave for this channel and relay.
    Forged,
}

impl Membership {
    /// Checks the grant of a client at this time, in seconds since 1970.
    pub(crate) fn check(&self, grant: Option<&str>, channel: &str, now: u64) -> GrantCheck {
        let Some(grant) = grant else {
            return GrantCheck::None;
        };
        let parts = grant.split_once('.');
        let parts = parts.and_then(|(until, mac)| Some((until.parse::<u64>().ok()?, mac)));
        let Some((until, mac)) = parts else {
            return GrantCheck::Forged;
        };
        if !self
            .key
            .has_made(mac, GRANT, &grant_text(until, &self.at, channel))
        {
            return GrantCheck::Forged;
        }
        match now <= until {
            true => GrantCheck::Good,
            false => GrantCheck::None,
        }
    }

    /// The channel at a rendezvous of this relay.
    pub(crate) fn rendezvous_uri(&self, channel: &str) -> Option<String> {
        let place = self.rendezvous.first()?;
        Some(format!("http://{place}{channel}"))
    }
}

/// A grant for a channel at a relay, at this time.
pub(crate) fn make_grant(key: &GrantKey, relay: &str, channel: &str, now: u64) -> String {
    let until = now + LASTS;
    let mac = key.mac_of(GRANT, &grant_text(until, relay, channel));
    format!("{until}.{mac}")
}

/// No part but the last one contains a line end, so that no two grants have the same text.
fn grant_text(until: u64, relay: &str, channel: &str) -> String {
    format!("{until}\n{relay}\n{channel}")
}

/// The MAC of a heartbeat.
pub(crate) fn heartbeat(key: &GrantKey, relay: &str, time: u64) -> String {
    key.mac_of(HEARTBEAT, &format!("{time}\n{relay}"))
}

/// Whether this is the MAC of a heartbeat.
pub(crate) fn is_heartbeat(key: &GrantKey, mac: &str, relay: &str, time: u64) -> bool {
    key.has_made(mac, HEARTBEAT, &format!("{time}\n{relay}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_for_one_channel_at_one_relay_and_ends() {
        let key = GrantKey::new("secret");
        let member = |at: &str| Membership {
            at: at.to_owned(),
            rendezvous: vec!["rv:80".to_owned()],
            key: GrantKey::new("secret"),
            beat: Duration::from_secs(4),
            needs_grants: true,
        };
        let here = member("a:80");
        let grant = make_grant(&key, "a:80", "/c/x", 1000);
        let check = |text: &str, channel, now| here.check(Some(text), channel, now);
        assert_eq!(check(&grant, "/c/x", 1600), GrantCheck::Good);
        assert_eq!(check(&grant, "/c/x", 1601), GrantCheck::None);
        assert_eq!(here.check(None, "/c/x", 1000), GrantCheck::None);
        assert_eq!(check(&grant, "/c/y", 1000), GrantCheck::Forged);
        assert_eq!(
            check(&grant.replace("1600", "9999"), "/c/x", 1000),
            GrantCheck::Forged
        );
        assert_eq!(check("x", "/c/x", 1000), GrantCheck::Forged);
        assert_eq!(
            member("b:80").check(Some(&grant), "/c/x", 1000),
            GrantCheck::Forged
        );
        // A heartbeat is no grant, whatever stands in it.
        let beat = heartbeat(&key, "a:80\n/c/x", 1600);
        assert_eq!(
            check(&format!("1600.{beat}"), "/c/x", 1000),
            GrantCheck::Forged
        );
    }
}
