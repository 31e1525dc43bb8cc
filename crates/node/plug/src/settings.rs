//! Settings of a plug where a document names it, as `{ NAME: {..} }`.

use std::sync::Arc;

use hermes_config::model::PlugSettings;
use hermes_config::{Problem, from_json, settings_schema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The settings that a plug takes where a document names it, and how it becomes a plug of its own that has them. `T` is its kind.
pub struct Settings<T: ?Sized> {
    schema: Value,
    make: Box<Make<T>>,
}

type Make<T> = dyn Fn(&PlugSettings) -> Result<Arc<T>, Vec<Problem>> + Send + Sync;

impl<T: ?Sized> Settings<T> {
    /// Settings of the form of `S`; `make` makes a plug of them, or gives the mistakes, with paths from the settings on.
    /// `S` should deny unknown fields: a document of a program, not of a file, is checked by nothing else.
    pub fn new<S: JsonSchema + DeserializeOwned>(
        make: impl Fn(S) -> Result<Arc<T>, Vec<Problem>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            schema: settings_schema::<S>(),
            make: Box::new(move |settings| make(read(settings).map_err(|wrong| vec![wrong])?)),
        }
    }

    /// The JSON Schema.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The plug that has these settings.
    ///
    /// # Errors
    /// The mistakes, with paths from the settings on.
    pub(crate) fn plug(&self, settings: &PlugSettings) -> Result<Arc<T>, Vec<Problem>> {
        (self.make)(settings)
    }
}

/// Reads settings as this type.
///
/// # Errors
/// The mistake, with its path from the settings on.
pub fn read<S: DeserializeOwned>(settings: &PlugSettings) -> Result<S, Problem> {
    from_json(&Value::Object(settings.clone()))
}

/// The same problem, with its path from the document on: `settings` is where the settings stand.
pub(crate) fn located(settings: &str, problem: Problem) -> Problem {
    let path = match problem.path.as_str() {
        "" => settings.to_owned(),
        element if element.starts_with('[') => format!("{settings}{element}"),
        key => format!("{settings}.{key}"),
    };
    Problem { path, ..problem }
}
