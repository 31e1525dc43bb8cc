//! One resource: its envelope, and its spec.

use std::collections::BTreeMap;

use hermes_api::{Hash, Name, canonical};
use hermes_config::{Problem, from_json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::key::{DEFAULT_TENANT, default_tenant};
use super::specs::{
    GroupSpec, LinkSpec, NameSpec, NodeSpec, OverlaySpec, PeeringSpec, PlacementSpec, PolicySpec,
    RouteSpec, SecretSpec, ServiceSpec, SliceSpec, TenantSpec, UserSpec,
};
use super::{Finding, Key, Kind};

/// The version of the language of resources.
pub const API_VERSION: &str = "hermes/v1";

/// Bytes of the canonical JSON of one resource.
#[doc(alias = "bound")]
pub(super) const RESOURCE_BYTES: usize = 4 << 20;

/// A resource: a part of the desired state.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    key: Key,
    json: Json,
    /// Of its blob: each change of an overlay asks for that of every resource.
    hash: Hash,
    /// Its content, typed.
    spec: Spec,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// Properties of the whole.
    Overlay(OverlaySpec),
    /// A proxy, or a device.
    Node(Box<NodeSpec>),
    /// A node that opens connections to another one.
    Link(LinkSpec),
    /// Servers behind nodes.
    Service(Box<ServiceSpec>),
    /// A target, and its service.
    Name(NameSpec),
    /// A detour.
    Route(Box<RouteSpec>),
    /// A user with several names.
    User(UserSpec),
    /// Users under one name.
    Group(GroupSpec),
    /// Who may do what.
    Policy(PolicySpec),
    /// Users of a tenant.
    Tenant(TenantSpec),
    /// Addresses that some users reach by IP.
    Slice(Box<SliceSpec>),
    /// A text that its nodes alone can read.
    Secret(SecretSpec),
    /// Another operator's overlay.
    Peering(Box<PeeringSpec>),
    /// A decision of the planner.
    Placement(PlacementSpec),
}

/// The envelope of every kind.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope<S> {
    /// Version of this language; always `hermes/v1`.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("const" = API_VERSION))]
    api_version: String,
    /// The kind.
    kind: String,
    /// Its name, and words about it.
    metadata: Metadata,
    /// Its content.
    spec: S,
}

/// The name of a resource, and words about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Its name among those of its kind and tenant: lower-case letters, digits and hyphens.
    #[schemars(with = "String")]
    pub name: Name,
    /// Whose it is. Default: `default`.
    #[serde(default = "default_tenant")]
    #[schemars(with = "String")]
    pub tenant: Name,
    /// Words by which people and sets find it. Default: none.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Resource {
    /// A resource from its JSON.
    ///
    /// # Errors
    /// It has no known kind, or not the form of its kind.
    pub fn from_json(json: &Json) -> Result<Self, Finding> {
        let kind = kind_of(json)?;
        match kind {
            Kind::Overlay => Self::typed(kind, json, Spec::Overlay),
            Kind::Node => Self::typed(kind, json, |spec| Spec::Node(Box::new(spec))),
            Kind::Link => Self::typed(kind, json, Spec::Link),
            Kind::Service => Self::typed(kind, json, |spec| Spec::Service(Box::new(spec))),
            Kind::Name => Self::typed(kind, json, Spec::Name),
            Kind::Route => Self::typed(kind, json, |spec| Spec::Route(Box::new(spec))),
            Kind::User => Self::typed(kind, json, Spec::User),
            Kind::Group => Self::typed(kind, json, Spec::Group),
            Kind::Policy => Self::typed(kind, json, Spec::Policy),
            Kind::Tenant => Self::typed(kind, json, Spec::Tenant),
            Kind::Secret => Self::typed(kind, json, Spec::Secret),
            Kind::Slice => Self::typed(kind, json, |spec| Spec::Slice(Box::new(spec))),
            Kind::Peering => Self::typed(kind, json, |spec| Spec::Peering(Box::new(spec))),
            Kind::Placement => Self::typed(kind, json, Spec::Placement),
        }
        .map_err(Finding::from)
    }

    fn typed<'de, S: Deserialize<'de>>(
        kind: Kind,
        json: &'de Json,
        spec: impl FnOnce(S) -> Spec,
    ) -> Result<Self, Problem> {
        let envelope: Envelope<S> = from_json(json)?;
        let metadata = envelope.metadata;
        let json = normal(json, &metadata);
        // Measured as it is kept and sent, whatever spaces its author wrote.
        let blob = canonical(&json);
        if blob.len() > RESOURCE_BYTES {
            let reason = format!(
                "the resource has {} bytes, more than {} MiB",
                blob.len(),
                RESOURCE_BYTES >> 20
            );
            return Err(Problem::new("", reason).remedy("divide it"));
        }
        Ok(Self {
            hash: Hash::of(&blob),
            json,
            key: Key {
                kind,
                tenant: metadata.tenant,
                name: metadata.name,
            },
            spec: spec(envelope.spec),
        })
    }

    /// Its name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its content, typed.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its content as it is written.
    pub(crate) fn written(&self) -> &Json {
        &self.json["spec"]
    }

    /// The words by which sets find it.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.json["metadata"]["labels"].get(name)?.as_str()
    }

    /// The same resource with another word about it.
    #[must_use]
    pub fn labelled(&self, label: &str, value: &str) -> Self {
        let mut labelled = self.clone();
        labelled.json["metadata"]["labels"][label] = value.into();
        labelled.hash = Hash::of(&labelled.canonical());
        labelled
    }

    /// The whole as JSON, with the keys that its author wrote.
    pub fn to_json(&self) -> &Json {
        &self.json
    }

    /// The whole in the spelling that hashes are made of.
    pub fn canonical(&self) -> Vec<u8> {
        canonical(&self.json)
    }

    /// The name of its blob.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The whole as YAML, for people; reading it gives the same resource.
    pub fn to_yaml(&self) -> String {
        let whole = self.json.as_object().cloned().unwrap_or_default();
        hermes_config::format_as_written(&whole)
    }
}

/// Resources as one text of YAML, for people; reading it gives the same resources.
pub fn format<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> String {
    let texts: Vec<String> = resources.into_iter().map(Resource::to_yaml).collect();
    texts.join("---\n")
}

/// The kind that JSON names.
fn kind_of(json: &Json) -> Result<Kind, Finding> {
    let word = json.get("kind").and_then(Json::as_str).unwrap_or_default();
    Kind::of(word).ok_or_else(|| unknown_kind(word).into())
}

/// The mistake of a resource of an unknown kind.
pub(super) fn unknown_kind(word: &str) -> Problem {
    let shown: String = word.chars().take(64).collect();
    if Kind::LATER.contains(&word) {
        let reason = format!("this controller does not know the kind `{shown}` yet");
        return Problem::new("kind", reason).remedy("remove the resource, or use a later version");
    }
    Problem::new("kind", format!("`{shown}` is no kind of resource")).remedy(Kind::instead(word))
}

/// The same resource in one order of its keys, without what goes without saying.
fn normal(json: &Json, metadata: &Metadata) -> Json {
    let mut named = Map::new();
    named.insert("name".to_owned(), metadata.name.as_str().into());
    if metadata.tenant.as_str() != DEFAULT_TENANT {
        named.insert("tenant".to_owned(), metadata.tenant.as_str().into());
    }
    if !metadata.labels.is_empty() {
        let labels = metadata.labels.iter();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().into()));
        named.insert("labels".to_owned(), Json::Object(labels.collect()));
    }

    let mut whole = Map::new();
    whole.insert("apiVersion".to_owned(), API_VERSION.into());
    whole.insert("kind".to_owned(), json["kind"].clone());
    whole.insert("metadata".to_owned(), Json::Object(named));
    whole.insert("spec".to_owned(), json["spec"].clone());
    Json::Object(whole)
}
