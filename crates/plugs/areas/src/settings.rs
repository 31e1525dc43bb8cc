//! What stands at `plugs: { areas: {..} }`.

use hermes_config::model::FilePath;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

/// Settings of a place.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AreasSettings {
    /// The file of areas, functions and links, the same at all places.
    pub(crate) file: FilePath,
    /// The place of this node in it.
    pub(crate) at: String,
    /// The folder where paths are kept: `paths.json`, and `routes.yaml`, which the document includes.
    pub(crate) folder: FilePath,
    /// Host and port of the API of each other place, as routes of this node have them for a target.
    #[serde(default)]
    pub(crate) partners: IndexMap<String, String>,
    /// Who may have which paths. Default: no one.
    #[serde(default)]
    pub(crate) allow: Vec<Allowance>,
}

/// Paths that users may have.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowance {
    /// Users who may ask, with one star at most.
    pub(crate) users: Vec<String>,
    /// Areas where paths begin. Default: any.
    #[serde(default)]
    pub(crate) from: Vec<String>,
    /// Areas where they end. Default: any.
    #[serde(default)]
    pub(crate) to: Vec<String>,
}
