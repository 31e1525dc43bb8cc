//! The systems: a proxy, with its own decision or a server that decides.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A proxy, and the part of it or the server beside it that decides.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Decider {
    /// Hermes without a decision.
    Hermes,
    /// Ten rules of Hermes.
    Native10,
    /// Ten thousand rules of Hermes.
    Native10000,
    /// Ten thousand rules whose conditions no index finds: each is evaluated.
    Unindexed10000,
    /// A policy in Rego, in Hermes.
    Rego,
    /// OPA, asked by Hermes over its data API.
    HermesOpa,
    /// OPA's plugin, asked by Hermes over gRPC.
    HermesGrpc,
    /// Envoy without a decision.
    Envoy,
    /// Ten policies of Envoy's RBAC.
    Rbac10,
    /// Ten thousand policies of Envoy's RBAC.
    Rbac10000,
    /// OPA's plugin, asked by Envoy over gRPC.
    EnvoyOpa,
}

impl Decider {
    /// All, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Hermes,
        Self::Native10,
        Self::Native10000,
        Self::Unindexed10000,
        Self::Rego,
        Self::HermesOpa,
        Self::HermesGrpc,
        Self::Envoy,
        Self::Rbac10,
        Self::Rbac10000,
        Self::EnvoyOpa,
    ];

    /// The same proxy without a decision.
    pub fn bare(self) -> Self {
        match self {
            Self::Hermes
            | Self::Native10
            | Self::Native10000
            | Self::Unindexed10000
            | Self::Rego
            | Self::HermesOpa
            | Self::HermesGrpc => Self::Hermes,
            Self::Envoy | Self::Rbac10 | Self::Rbac10000 | Self::EnvoyOpa => Self::Envoy,
        }
    }

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Native10 => "native10",
            Self::Native10000 => "native10000",
            Self::Unindexed10000 => "unindexed10000",
            Self::Rego => "rego",
            Self::HermesOpa => "hermes-opa",
            Self::HermesGrpc => "hermes-grpc",
            Self::Envoy => "envoy",
            Self::Rbac10 => "rbac10",
            Self::Rbac10000 => "rbac10000",
            Self::EnvoyOpa => "envoy-opa",
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
