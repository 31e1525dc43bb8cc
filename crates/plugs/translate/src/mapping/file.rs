//! The keys of a mapping's file.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ValueType;
use crate::content::ContentForm;

/// A file that says how an old interface is served by a new one.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MappingFile {
    /// The version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The marks of requests that speak the old interface: one of them is enough. Default: all requests do.
    #[serde(default)]
    pub spoken: Vec<SpokenSpec>,
    /// Requests of the old interface that no operation takes. Default: `refuse`, with 404.
    #[serde(default)]
    pub otherwise: Choice,
    /// Messages that cannot be translated: of another type, compressed, malformed, too large. Default: `refuse`. `pass` lets those go on as
    /// they are whose fields say it already.
    #[serde(default)]
    pub unfit: Choice,
    /// The longest content, or element of a content that is translated element by element: at most 4194304. Default: 1048576.
    #[serde(default)]
    pub bytes: Option<u32>,
    /// Arrays and objects within each other, at most 64. Default: 32.
    #[serde(default)]
    pub depth: Option<u32>,
    /// Changes to the fields of each request that is translated, after those of its operation.
    #[serde(default)]
    pub fields: PairsSpec,
    /// The operations of the old interface, by name; the first whose request it is takes it.
    #[serde(default)]
    pub operations: IndexMap<String, OperationSpec>,
    /// Answers to all operations, by status: `200`, `4xx`, `any`. Those of an operation come first.
    #[serde(default)]
    pub answers: IndexMap<String, AnswerSpec>,
    /// Tests of this mapping, which `hermes translate test` runs.
    #[serde(default)]
    pub tests: Vec<TestSpec>,
}

/// The treatment of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// It is refused.
    #[default]
    Refuse,
    /// It passes as it is.
    Pass,
}

/// A mark of the old interface. All keys that are written hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpokenSpec {
    /// The path begins with these segments: `/v1`.
    pub path: Option<String>,
    /// A field has this value: `api-version: "1"`. An empty value: the field is absent.
    pub field: IndexMap<String, String>,
    /// A media type of `Accept` or `Content-Type` has this parameter: `version=1`.
    pub media_type: Option<String>,
}

/// An operation of the old interface.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// Its requests: `GET /v1/users/{id}`; `{id}` is a segment of the path, `{rest*}` all that are left.
    pub from: String,
    /// The request of the new interface: `GET /v2/people/{id}`. `{query.NAME}` and `{field.NAME}` are those of the old request.
    pub to: String,
    /// Changes to the query.
    #[serde(default)]
    pub query: PairsSpec,
    /// Changes to the fields.
    #[serde(default)]
    pub fields: PairsSpec,
    /// Changes to the content. Default: it goes on as it is.
    #[serde(default)]
    pub content: Option<ContentSpec>,
    /// Its answers, by status: `200`, `2xx`, `any`; the first that is written and fits.
    #[serde(default)]
    pub answers: IndexMap<String, AnswerSpec>,
}

/// An answer of the new interface.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerSpec {
    /// The status for the old client. Default: the same.
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<u16>,
    /// Changes to the fields.
    pub fields: PairsSpec,
    /// Changes to the content. Default: it goes on as it is.
    pub content: Option<ContentSpec>,
}

/// Changes to a query or to fields: moves first, all at once, then in the order of these keys.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PairsSpec {
    /// New names, by the old ones.
    #[serde(rename = "move")]
    pub moves: IndexMap<String, String>,
    /// Of a query: the new names that may be there; all others are removed. Default: any.
    pub only: Vec<String>,
    /// New values by the old ones, by new name.
    pub values: IndexMap<String, IndexMap<String, ConstantSpec>>,
    /// Values that are set.
    pub set: IndexMap<String, ConstantSpec>,
    /// Values that are set where there is none.
    pub default: IndexMap<String, ConstantSpec>,
    /// Names that are removed.
    pub remove: Vec<String>,
}

/// Changes to a content. `take` comes first, then the moves, all at once, then the others in the order of these keys. Members that no key
/// names stay.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSpec {
    /// The form in which it comes. Default: `json`.
    pub(crate) from: ContentForm,
    /// The form in which it goes. Default: `json`.
    pub(crate) to: ContentForm,
    /// The part of it that is translated, as `data.items`; the rest is left out. Default: all of it.
    pub take: Option<String>,
    /// New places of members, by the old ones: `users[].first: users[].name.given`.
    #[serde(rename = "move")]
    pub moves: IndexMap<String, String>,
    /// The new places that may be there; other members of the same objects are removed. Default: any.
    pub only: Vec<String>,
    /// New values by the old ones, by place.
    pub values: IndexMap<String, IndexMap<String, ConstantSpec>>,
    /// New types, by place: `string`, `number`, `boolean`, `array`.
    pub(crate) types: IndexMap<String, ValueType>,
    /// Values that are set, by place.
    pub set: IndexMap<String, ConstantSpec>,
    /// Values that are set where there is none, by place.
    pub default: IndexMap<String, ConstantSpec>,
    /// Places that are removed.
    pub remove: Vec<String>,
    /// The member that the whole becomes at last, as `data`. Default: it stays the whole.
    pub put: Option<String>,
}

/// A value that is set.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ConstantSpec {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A text; `{id}`, `{query.NAME}` and `{field.NAME}` in it are those of the old request.
    Text(String),
    /// Any other value.
    Json(JsonSpec),
}

/// A value that is written as JSON.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonSpec {
    /// Its text: `'[]'`.
    pub json: String,
}

/// A test: a request of an old client, and an answer of the new server.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSpec {
    /// The claim that it proves.
    pub name: String,
    /// The request of the client.
    pub request: MessageSpec,
    /// The request that the new server gets. Default: it is not compared.
    #[serde(default)]
    pub sends: Option<MessageSpec>,
    /// The answer of the new server. Default: the test ends with the request.
    #[serde(default)]
    pub answer: Option<MessageSpec>,
    /// The answer that the client gets; a status of 4xx or 5xx without `answer` is a refusal.
    #[serde(default)]
    pub gets: Option<MessageSpec>,
}

/// A message of a test.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSpec {
    /// Of a request: `GET /v1/users/7`.
    pub ask: Option<String>,
    /// Of an answer: its status. Default: 200 of the new server, any for the client.
    pub status: Option<u16>,
    /// Fields. Of an expected message those that are compared; an empty value: it has no such field.
    pub fields: IndexMap<String, String>,
    /// The content, as text; an expected one is compared by its meaning if it is JSON.
    pub content: Option<String>,
    /// Of an expected refusal: part of its reason.
    pub reason: Option<String>,
}
