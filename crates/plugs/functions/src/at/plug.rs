//! The functions of a node as a whole: the keys that it shares with other nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_config::model::FilePath;
use hermes_config::{Problem, child, element, settings_schema};
use hermes_plug::{Change, DocumentSettings, Plug};
use hermes_proto::functions_field::is_name;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::keyring::{Keyring, Secret};

/// Keys that a node may share.
#[doc(alias = "bound")]
const KEYS: usize = 1024;

/// The settings of the functions of a node.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FunctionsSettings {
    /// Nodes with which this one shares a key, and the file of each: 64 hexadecimal digits. These may ask this node for its functions,
    /// and are asked for theirs.
    #[serde(default)]
    keys: BTreeMap<String, FilePath>,
}

/// The keys of a node, before and after it runs.
pub(crate) struct FunctionKeys(pub Arc<Keyring>);

impl Plug for FunctionKeys {
    fn schema(&self) -> Option<Value> {
        Some(settings_schema::<FunctionsSettings>())
    }

    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let read = settings.read::<FunctionsSettings>();
        let read = read.map_err(|wrong| vec![wrong])?.unwrap_or_default();
        let mut problems = Vec::new();
        if read.keys.len() > KEYS {
            problems.push(settings.problem("keys", "there are too many", "write at most 1024"));
        }
        let mut keys = BTreeMap::new();
        for (node, file) in &read.keys {
            match secret(node, file) {
                Ok(secret) => {
                    keys.insert(node.clone(), secret);
                }
                Err(reason) => {
                    let remedy = "make one: `(umask 077; openssl rand -hex 32 > FILE)`";
                    problems.push(settings.problem(&child("keys", node), reason, remedy));
                }
            }
        }
        problems.extend(keyless(settings, &read));

        if !problems.is_empty() {
            return Err(problems);
        }
        let keyring = self.0.clone();
        Ok(Change::new(move || keyring.change(keys)))
    }
}

fn secret(node: &str, file: &FilePath) -> Result<Secret, String> {
    if !is_name(node) {
        return Err(format!("`{node}` is no name of a node"));
    }
    let text = hermes_config::secret(&file.0)?;
    let wrong = || format!("{} has other than 64 hexadecimal digits", file.0.display());
    Secret::parse(&text).ok_or_else(wrong)
}

/// Nodes that functions of the document need a key for, and have none.
fn keyless(settings: &DocumentSettings<'_>, read: &FunctionsSettings) -> Vec<Problem> {
    let document = settings.document;
    let defined = document.functions.iter();
    let defined = defined.map(|(name, named)| (child("functions", name), named));
    let routes = document.routes.iter().enumerate();
    let named = routes.flat_map(|(route, config)| {
        let path = child(&element("routes", route), "through");
        let through = config.through.iter().enumerate();
        through.map(move |(at, named)| (element(&path, at), named))
    });

    let mut problems = Vec::new();
    for (path, named) in defined.chain(named) {
        let key = match named.name.as_str() {
            "at" => "node",
            "decrypt" | "encrypt" => "with",
            _ => continue,
        };
        // Mistakes in these settings are those of the function.
        let node = named
            .settings
            .as_ref()
            .and_then(|settings| settings.get(key));
        let Some(node) = node.and_then(Value::as_str) else {
            continue;
        };
        if !read.keys.contains_key(node) {
            let reason = format!("no key is shared with the node `{node}`");
            let remedy = format!("add `plugs: {{ functions: {{ keys: {{ {node}: FILE }} }} }}`");
            problems.push(Problem::new(path, reason).remedy(remedy));
        }
    }
    problems
}
