//! The names of the systems.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A system.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// No proxy.
    Direct,
    /// Two forwarders of ours with the same sockets and wake-ups as a pair of proxies, and no HTTP: the floor.
    Null,
    /// Two nodes of Hermes.
    Hermes,
    /// Two Envoys.
    Envoy,
    /// Two nginx, HTTP only.
    Nginx,
    /// Two HAProxys, HTTP only.
    Haproxy,
    /// Two h2o, HTTP only.
    H2o,
    /// Two Caddys, HTTP only.
    Caddy,
}

impl Name {
    /// All systems, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::Direct,
        Self::Null,
        Self::Hermes,
        Self::Envoy,
        Self::Nginx,
        Self::Haproxy,
        Self::H2o,
        Self::Caddy,
    ];

    /// Its name in tables and options.
    pub fn text(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Null => "null",
            Self::Hermes => "hermes",
            Self::Envoy => "envoy",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::H2o => "h2o",
            Self::Caddy => "caddy",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
