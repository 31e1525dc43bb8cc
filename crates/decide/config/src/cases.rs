//! Cases of a configuration: assumed exchanges, and the expected decisions.

use std::path::Path;
use std::sync::OnceLock;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::env::Env;
use crate::include::IncludeReader;
use crate::model::scalar::FilePath;
use crate::reader::SystemFiles;
use crate::{Places, Problem, Problems, schema, walk};

/// A file of cases.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// The configuration that decides.
    pub config: FilePath,
    /// The cases.
    pub cases: Vec<Case>,
}

/// An assumed exchange, and the expected decision.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The request: `GET http://WEB/plans`, `CONNECT DB:5432`, `CONNECT-UDP DNS:53`,
    /// `CONNECT-IP 10.0.0.0/8`, `UPGRADE websocket http://WEB/chat`. Or a packet:
    /// `PACKET tcp 10.0.2.1:443`. Default: the purpose of the listener, which then takes
    /// connections, datagrams or packets of a device.
    #[serde(default)]
    pub ask: Option<String>,
    /// Where it enters; `LISTENER/TUNNEL` where its device has several. Default: the first listener for HTTP.
    #[serde(default)]
    pub listener: Option<String>,
    /// The authenticated user. Default: no one.
    #[serde(default)]
    pub user: Option<String>,
    /// The groups that this user's token claims, for `claim-group:NAME`. Default: none.
    #[serde(default)]
    pub claim_groups: Vec<String>,
    /// Other claims of this token, for policies in Rego; the claim of the groups may be among them
    /// instead. Default: nothing.
    #[serde(default)]
    pub claims: Map<String, Json>,
    /// The address it comes from. Default: 127.0.0.1, of a device its own; a packet needs one.
    #[serde(default)]
    pub source: Option<String>,
    /// When it arrives, for rules with `hours` and for policies in Rego that ask for the time: `2026-11-27T18:30:00Z`, of UTC. Default: now.
    #[serde(default)]
    pub at: Option<String>,
    /// Its fields, as the client sends them.
    #[serde(default)]
    pub fields: IndexMap<String, String>,
    /// The expected decision.
    pub expect: Expect,
}

/// An expected decision.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether it may go on, and takes a route.
    pub allow: bool,
    /// The status of the refusal.
    #[serde(default)]
    pub status: Option<u16>,
    /// Part of the reason for a refusal; of a packet, also of the reason why it passes.
    #[serde(default)]
    pub reason: Option<String>,
    /// The user of the exchange.
    #[serde(default)]
    pub user: Option<String>,
    /// The route that it takes.
    #[serde(default)]
    pub route: Option<String>,
    /// Fields that it has when its route is chosen. An empty value: it has no such field.
    #[serde(default)]
    pub fields: IndexMap<String, String>,
}

/// Reads a file of cases.
///
/// # Errors
/// Everything that is wrong with its form, in the order of lines.
pub fn read_cases(file: &Path, env: Env<'_>) -> Result<(Cases, Places), Problems> {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    let schema = SCHEMA.get_or_init(schema::of::<Cases>);

    let mut reader = IncludeReader::new(env, &SystemFiles);
    let root = reader.read(file, None);
    let IncludeReader {
        mut problems,
        files,
        ..
    } = reader;
    let Some(root) = root else {
        return Err(Problems(problems));
    };

    let (json, found) = walk::read(schema, &root);
    problems.extend(found);
    if !problems.is_empty() {
        return Err(Problems(problems).in_order(&files));
    }

    let places = Places::new(root);
    let cases = serde_json::from_value(json)
        .map_err(|error| Problems(vec![places.placed(Problem::new("", error.to_string()))]))?;
    Ok((cases, places))
}
