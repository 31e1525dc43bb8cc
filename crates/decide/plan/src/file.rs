//! The keys of a file of areas.

use hermes_config::model::{Match, PlugUse, Terminate, Upstream};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest cost of a function or link: sums of any number of them fit.
#[doc(alias = "bound")]
pub(crate) const COST: u32 = 1_000_000;

/// A file of areas.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AreasFile {
    /// The version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The attributes that may be named below. Default: any.
    #[serde(default)]
    pub attributes: Vec<String>,
    /// Places where nodes run, by name. Default: those that areas name.
    #[serde(default)]
    pub places: IndexMap<String, PlaceSpec>,
    /// Areas, by name.
    pub areas: IndexMap<String, AreaSpec>,
    /// Functions that can be put on the way, by name.
    #[serde(default)]
    pub functions: IndexMap<String, FunctionSpec>,
    /// Links between places. Default: each place reaches each other at no cost.
    #[serde(default)]
    pub links: Option<Vec<LinkSpec>>,
    /// Paths that are wanted, in the order in which they take their share of capacities. Default: each pair of areas on its own.
    #[serde(default)]
    pub paths: Vec<PathSpec>,
}

/// A place: a node, or several that share a configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    /// How nodes at other places reach it, in the words of a node's `upstreams`. Default: a plan can be printed, its documents cannot.
    #[serde(default)]
    pub reached: Option<Upstream>,
}

/// An area: machines of one organisation that have the same attributes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AreaSpec {
    /// The place of its node. Default: the place of the area's name.
    #[serde(default)]
    pub at: Option<String>,
    /// Its attributes. Data of the area moves only to areas that have them too, or through functions that give them.
    #[serde(default)]
    pub has: Vec<String>,
    /// Attributes that all data has to have that enters or leaves it, beside its own.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Which exchanges at its place come from it, in the words of `match` of a route. Default: all that have no path yet.
    #[serde(default)]
    pub clients: Match,
    /// Hosts and ports of its services, as in `match.target` of a route: `ehr.umc.example:443`.
    #[serde(default)]
    pub targets: Vec<String>,
    /// How the node at its place reaches them, in the words of `terminate` of a route. Default: true, by their names.
    #[serde(default)]
    pub terminate: Option<Terminate>,
}

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionSpec {
    /// Attributes that it gives to data that passes.
    #[serde(default)]
    pub adds: Vec<String>,
    /// Attributes that data no longer has behind it: a compressed flow is not `readable`.
    #[serde(default)]
    pub removes: Vec<String>,
    /// Attributes that data has to have before it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Its cost. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(max = COST))]
    pub cost: u32,
    /// Places where it may run. Default: every place.
    #[serde(default)]
    pub at: Option<Vec<String>>,
    /// Paths that may use it at one place. Default: any number.
    #[serde(default)]
    pub capacity: Option<u32>,
    /// Its name in `through` of a route, or `{ NAME: {..} }` with settings. Default: its own.
    #[serde(default)]
    pub through: Option<PlugUse>,
}

/// A link, in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The places that it joins.
    #[schemars(length(min = 2, max = 2))]
    pub between: Vec<String>,
    /// Its cost. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(max = COST))]
    pub cost: u32,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// The area where it begins.
    pub from: String,
    /// The area where it ends.
    pub to: String,
}

fn one() -> u32 {
    1
}
