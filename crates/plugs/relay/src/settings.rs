//! The settings of a relay: `handle: { relay: {..} }`.

use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::{ByteSize, Duration as Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::OWNER;
use crate::queue::{MemberBounds, Overflow};

/// What stands at `handle: { relay: {..} }`. Channels are the node's: two routes with other settings share those of one URI.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RelaySettings {
    /// How long a subscription lasts that asks for nothing; 1h.
    timeout: Option<Time>,
    /// The longest time that a subscription may ask for; 24h.
    max_timeout: Option<Time>,
    /// Silence after which a subscriber gets a sign of life; 15s.
    heartbeat: Option<Time>,
    /// How long a subscription waits for a subscriber whose stream broke off; 30s.
    grace: Option<Time>,
    /// Bytes of messages that may wait for one subscription; 256KiB.
    queue: Option<ByteSize>,
    /// The messages that a subscription loses when its queue is full: `newest` (the default) or `oldest`.
    overflow: OverflowSetting,
    /// How long a subscription without room may hold up publishers of the reliable mode before it ends; 30s.
    lag: Option<Time>,
    /// The longest message that is kept here; 1MiB.
    message: Option<ByteSize>,
    /// The longest message of the reliable mode that passes piece by piece; 1GiB.
    long_message: Option<ByteSize>,
    /// Subscriptions of one user, or of one source without a user; 1000.
    subscriptions: Option<u32>,
}

/// The messages that a full queue loses.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OverflowSetting {
    /// Those that come.
    #[default]
    Newest,
    /// Those that have waited longest.
    Oldest,
}

/// The rules of a relay, with every default filled in.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) timeout: Duration,
    pub(crate) max_timeout: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) grace: Duration,
    pub(crate) lag: Duration,
    pub(crate) queue: MemberBounds,
    /// Bytes.
    pub(crate) message: usize,
    /// Bytes of one that passes piece by piece.
    pub(crate) long_message: u64,
    pub(crate) subscriptions: usize,
}

impl RelaySettings {
    /// The rules.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub(crate) fn rules(&self) -> Result<Rules, Vec<Problem>> {
        const DAY: Duration = Duration::from_hours(24);

        let time = |set: Option<Time>, default: Duration| set.map_or(default, |time| time.0);
        let bytes = |set: Option<ByteSize>, default: usize| {
            set.map_or(default, |size| {
                usize::try_from(size.0).unwrap_or(usize::MAX)
            })
        };
        let max_timeout = time(self.max_timeout, DAY);
        let rules = Rules {
            timeout: time(self.timeout, Duration::from_hours(1).min(max_timeout)),
            max_timeout,
            heartbeat: time(self.heartbeat, Duration::from_secs(15)),
            grace: time(self.grace, Duration::from_secs(30)),
            lag: time(self.lag, Duration::from_secs(30)),
            queue: MemberBounds {
                bytes: bytes(self.queue, 256 << 10),
                overflow: match self.overflow {
                    OverflowSetting::Newest => Overflow::Newest,
                    OverflowSetting::Oldest => Overflow::Oldest,
                },
            },
            message: bytes(self.message, 1 << 20),
            long_message: self.long_message.map_or(1 << 30, |size| size.0),
            subscriptions: self.subscriptions.map_or(1000, |count| count as usize),
        };

        let mut wrong = Vec::new();
        if rules.timeout > rules.max_timeout {
            let problem = Problem::new("timeout", "it is longer than `max_timeout`");
            wrong.push(problem.remedy("write a shorter time, or a longer `max_timeout`"));
        }
        if rules.message > OWNER {
            let problem = Problem::new("message", "it is more than may wait for one user");
            wrong.push(problem.remedy("write 16MiB or less"));
        }
        for (key, time) in [("heartbeat", rules.heartbeat), ("max_timeout", max_timeout)] {
            if time < Duration::from_secs(1) {
                let problem = Problem::new(key, "it is shorter than a second");
                wrong.push(problem.remedy("write 1s or more: subscribers are told whole seconds"));
            }
        }
        if wrong.is_empty() {
            Ok(rules)
        } else {
            Err(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_named() {
        let settings: RelaySettings =
            serde_json::from_value(serde_json::json!({ "timeout": "2h", "max_timeout": "1h" }))
                .unwrap();
        let wrong = settings.rules().unwrap_err();
        assert_eq!(wrong[0].path, "timeout");
        let rules = RelaySettings::default().rules().unwrap();
        assert_eq!(rules.heartbeat, Duration::from_secs(15));
    }
}
