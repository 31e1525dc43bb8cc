//! Resources of an overlay, as an operator writes them.

use std::fmt::{self, Display};
use std::net::SocketAddr;

/// A text of resources, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Resources(String);

impl Resources {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, with its spec in YAML.
    #[must_use]
    pub fn with(mut self, kind: &str, name: &str, spec: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push_str("---\n");
        }
        self.0.push_str(&format!(
            "apiVersion: hermes/v1\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {spec}\n"
        ));
        self
    }

    /// A node that others reach where it listens.
    #[must_use]
    pub fn node(self, name: &str, listen: impl Display) -> Self {
        self.with(
            "Node",
            name,
            &format!("{{ listen: {listen}, reach: [{listen}] }}"),
        )
    }

    /// A node by which devices enter.
    #[must_use]
    pub fn ingress(self, name: &str, listen: impl Display) -> Self {
        let spec = format!("{{ listen: {listen}, reach: [{listen}], ingress: true }}");
        self.with("Node", name, &spec)
    }

    /// A service with a server at each of these nodes.
    #[must_use]
    pub fn service(self, name: &str, ends: &[(&str, SocketAddr)]) -> Self {
        let ends = ends.iter();
        let ends = ends.map(|(node, address)| format!("{{ node: {node}, address: {address} }}"));
        let ends: Vec<_> = ends.collect();
        self.with("Service", name, &format!("{{ at: [{}] }}", ends.join(", ")))
    }

    /// A name of a service; the resource has it in small letters, and without a port.
    #[must_use]
    pub fn name(self, name: &str, service: &str) -> Self {
        let (host, _) = name.split_once(':').unwrap_or((name, ""));
        let spec = format!("{{ name: '{name}', service: {service} }}");
        self.with("Name", &host.to_lowercase(), &spec)
    }

    /// A policy of one rule that allows exchanges which match this, such as `target: VIDEO, user: alice`.
    #[must_use]
    pub fn allow(self, name: &str, matched: &str) -> Self {
        let spec = format!("{{ rules: [{{ match: {{ {matched} }}, allow: true }}] }}");
        self.with("Policy", name, &spec)
    }

    /// The text.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }
}

impl Display for Resources {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
