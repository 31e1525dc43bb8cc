//! Time-outs with their defaults filled in.

use std::time::Duration;

use hermes_config::model;

/// Time-outs of an exchange. There is no overall limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is usable, TLS and tunnels through other proxies included.
    pub connect: Duration,
    /// Until a response head arrives.
    pub header: Duration,
    /// Longest silence within a message's content.
    pub idle: Duration,
    /// Longest silence of a UDP session.
    pub udp: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            udp: Duration::from_secs(300),
        }
    }
}

impl Timeouts {
    /// These, with what `over` sets put over them.
    pub fn overlaid(&self, over: &model::Timeouts) -> Self {
        let or = |set: &Option<model::Duration>, default| set.as_ref().map_or(default, |duration| duration.0);
        Self {
            connect: or(&over.connect, self.connect),
            header: or(&over.header, self.header),
            idle: or(&over.idle, self.idle),
            udp: or(&over.udp, self.udp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_stands_over_what_is_not() {
        let over = model::Timeouts { header: "1s".parse().ok(), ..model::Timeouts::default() };
        let timeouts = Timeouts::default().overlaid(&over);
        assert_eq!((timeouts.header.as_secs(), timeouts.connect.as_secs()), (1, 5));
    }
}
