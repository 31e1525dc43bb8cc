//! The listener and hosts of a route, and the tunnels that it takes.

use serde_json::{Value as Json, json};

use crate::draft::{Draft, one_or_many, put};
use crate::source::Node;

/// The listener that a connection manager belongs to.
pub(super) struct Scope {
    /// Our name for it.
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) is_tls: bool,
    /// There is no other one, so that conditions need not name it.
    pub(super) is_alone: bool,
    /// The names in the TLS handshake that its routes are for; empty for any.
    pub(super) names: Vec<String>,
}

impl Scope {
    /// A condition that holds for this listener, and for these names.
    pub(super) fn condition(&self) -> Json {
        let mut condition = match self.is_alone {
            true => json!({}),
            false => json!({ "listener": self.name }),
        };
        if !self.names.is_empty() {
            let names = self.names.iter().map(|name| json!(name)).collect();
            put(&mut condition, "target", one_or_many(names));
        }
        condition
    }

    /// Refuses all that enters here, because something that would keep requests out cannot be carried.
    pub(super) fn refuse(&self, because: &str, draft: &mut Draft) {
        let mut rule = json!({ "name": draft.name(&format!("left-out-{because}")) });
        let matched = self.condition();
        if matched != json!({}) {
            rule["match"] = matched;
        }
        rule["deny"] =
            json!({ "status": 503, "reason": format!("{because} was not carried over") });
        draft.denials.push(rule);
    }
}

/// Which tunnels and upgrades are let through.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tunnels {
    pub(super) connect: bool,
    pub(super) connect_udp: bool,
    pub(super) websocket: bool,
    /// One of them ends here.
    pub(super) ends_here: bool,
    /// One may come as POST.
    pub(super) by_post: bool,
}

impl Tunnels {
    /// The tunnels in `upgrade_configs`.
    pub(super) fn of(configs: &[Node]) -> Self {
        let mut tunnels = Self::default();
        for config in configs {
            let is_off = config.choice("enabled") == Some(false);
            let kind = config.text("upgrade_type").unwrap_or_default();
            match kind.to_ascii_uppercase().as_str() {
                _ if is_off => {}
                "CONNECT" => tunnels.connect = true,
                "CONNECT-UDP" => tunnels.connect_udp = true,
                "WEBSOCKET" => tunnels.websocket = true,
                _ => {}
            }
            if let Some(end) = config.field("connect_config") {
                tunnels.ends_here = true;
                tunnels.by_post |= end.flag("allow_post");
            }
        }
        tunnels
    }

    /// Other protocols of `upgrade_configs`, which routes have to name.
    pub(super) fn others(configs: &[Node]) -> Vec<&str> {
        let names = configs
            .iter()
            .filter_map(|config| config.text("upgrade_type"));
        names
            .filter(|name| {
                let upper = name.to_ascii_uppercase();
                !["CONNECT", "CONNECT-UDP", "WEBSOCKET"].contains(&upper.as_str())
            })
            .collect()
    }

    /// The kinds that a `connect_matcher` takes.
    pub(super) fn kinds(self) -> Json {
        match (self.connect, self.connect_udp) {
            (true, true) => json!(["connect", "connect-udp"]),
            (false, true) => json!("connect-udp"),
            _ => json!("connect"),
        }
    }
}
