//! Policies in Rego that the node evaluates itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_source::DataSource;
use super::scalar::{ByteSize, OneOrMany};

/// A policy in Rego, the language of Open Policy Agent, evaluated in this process.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rego {
    /// Files of rules, and of data where the name ends in `.json`; an inline text is data if it starts with `{`.
    pub files: OneOrMany<DataSource>,
    /// The rule that decides: `data.overlay.allow`.
    pub query: String,
    /// The form of `input`. Default: hermes.
    #[serde(default)]
    pub input: RegoInput,
    /// Steps of one evaluation; beyond them the exchange is refused. Default: 100000.
    #[serde(default)]
    #[schemars(range(min = 100, max = 1_000_000_000))]
    pub steps: Option<u64>,
    /// Memory that one evaluation may ask for in all; beyond it the exchange is refused. Default: 16MiB.
    #[serde(default)]
    pub memory: Option<ByteSize>,
}

/// The form of a policy's `input`, and of its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegoInput {
    /// The input that the `opa` kind of `authorize` sends, and its results.
    #[default]
    Hermes,
    /// The input of OPA's plugin for Envoy, and its results: policies written for it work
    /// unchanged.
    Envoy,
}
