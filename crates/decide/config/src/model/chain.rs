//! Several next proxies, one behind the other.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The separator between the names of a chain's hops.
const BETWEEN: &str = " > ";

/// Upstreams that are passed in this order, each inside a tunnel through the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Chain {
    hops: Vec<String>,
    name: String,
}

impl Chain {
    /// The names of its hops, the nearest first.
    pub fn hops(&self) -> &[String] {
        &self.hops
    }

    /// The name of its last hop as it is reached, such as `near > far`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hops as they are reached after the first, each with the name of the way there: `(b, "a", "a > b")`.
    pub fn links(&self) -> impl Iterator<Item = (&str, String, String)> {
        (1..self.hops.len()).map(|index| {
            let way = self.hops[..index].join(BETWEEN);
            (
                self.hops[index].as_str(),
                way,
                self.hops[..=index].join(BETWEEN),
            )
        })
    }

    /// The name that the file gives to the hop that is reached under this name.
    pub fn last_of(name: &str) -> &str {
        name.rsplit(BETWEEN).next().unwrap_or(name)
    }

    /// Whether a name means a chain, so that no upstream of a file may have it.
    pub fn is_name(name: &str) -> bool {
        name.contains(BETWEEN)
    }
}

impl From<Vec<String>> for Chain {
    fn from(hops: Vec<String>) -> Self {
        Self {
            name: hops.join(BETWEEN),
            hops,
        }
    }
}

impl From<Chain> for Vec<String> {
    fn from(chain: Chain) -> Self {
        chain.hops
    }
}

impl JsonSchema for Chain {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Chain".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<String>();
        json_schema!({ "type": "array", "items": item, "minItems": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hop_is_reached_through_those_before_it() {
        let chain = Chain::from(["a", "b", "c"].map(str::to_owned).to_vec());
        let links: Vec<_> = chain.links().collect();
        let link = |hop, way: &str, name: &str| (hop, way.to_owned(), name.to_owned());
        assert_eq!(
            links,
            [link("b", "a", "a > b"), link("c", "a > b", "a > b > c")]
        );
        assert_eq!(
            (
                chain.name(),
                Chain::last_of(chain.name()),
                Chain::last_of("a")
            ),
            ("a > b > c", "c", "a")
        );
        assert!(Chain::is_name(chain.name()) && !Chain::is_name("a>b"));
    }
}
