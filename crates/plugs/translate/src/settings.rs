//! The settings of a translation: `through: [ { translate: { file: old.yaml } } ]`.

use hermes_config::model::scalar::FilePath;
use schemars::JsonSchema;
use serde::Deserialize;

/// The settings at `through: [ { translate: {..} } ]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranslateSettings {
    /// The file of the mapping.
    pub(crate) file: FilePath,
}
