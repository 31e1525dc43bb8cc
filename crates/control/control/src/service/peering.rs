//! Overlays of two operators become peers: each hands the other one a description of its own overlay, and takes the other's in.
//!
//! A description is a Peering as its receiver would write it, without anything that is the receiver's to decide: of a description nothing
//! is taken but the domain, the authorities and the nodes at the border.

use hermes_api::Name;
use hermes_config::Problem;
use hermes_config::model::DataSource;
use hermes_net::clock::unix_seconds;
use hermes_net::tls::{TlsSource, of_certificates};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::controller::Controller;
use super::outcome::{Changed, How, NotChanged};
use super::published::Published;
use crate::resources::{
    self, API_VERSION, Finding, Findings, Key, Kind, PeeringSpec, Resource, Source, Spec, Tree,
};

/// A description of another overlay, and the decisions of our operator about it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// The name of the file, for mistakes.
    pub file: String,
    /// The description.
    pub text: String,
    /// The name that the other overlay has here. Default: the one that it has there.
    #[serde(default)]
    pub name: Option<Name>,
    /// Our nodes at the border. Default: those of before, or where our devices enter.
    #[serde(default)]
    pub at: Vec<Name>,
    /// Our names that are exported. Default: those of before.
    #[serde(default)]
    pub exports: Vec<Name>,
    /// Users there to whom they are exported. Default: all.
    #[serde(default)]
    pub to: Vec<String>,
    /// Fields that are taken from it. Default: those of before.
    #[serde(default)]
    pub accepts: Vec<String>,
    /// Our users who may ask for its names; a Policy says so. Default: as policies say.
    #[serde(default)]
    pub allow: Vec<String>,
    /// How.
    #[serde(default)]
    pub how: How,
}

/// Another overlay as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeeringView {
    /// The name that it has here.
    pub name: Name,
    /// Its domain.
    pub domain: String,
    /// Our nodes at the border.
    pub at: Vec<Name>,
    /// Our names that are exported to it.
    pub exports: Vec<Name>,
    /// Unix seconds at which it has made a newer authority, and the bundle should be taken anew; `None` for a bundle in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew: Option<u64>,
    /// Unix seconds at which the last authority that we know of ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl PeeringView {
    fn of(key: &Key, peering: &PeeringSpec) -> Self {
        let spans = match &peering.bundle {
            DataSource::Inline(text) => of_certificates(TlsSource::Inline(text)).ok(),
            DataSource::File(_) => None,
        };
        let spans = spans.into_iter().flatten();
        let newest = spans.max_by_key(|span| span.until);
        let until = newest.as_ref().and_then(|span| span.until);
        // A controller makes the next authority when the newest has had half of its time.
        let renew = newest.and_then(|span| Some(span.from.midpoint(span.until?)));
        Self {
            name: key.name.clone(),
            domain: peering.domain.clone(),
            at: peering.at.clone(),
            exports: peering
                .exports
                .iter()
                .map(|export| export.name.clone())
                .collect(),
            renew,
            until,
        }
    }

    /// Whether its operator has a newer bundle for us.
    pub fn is_due(&self, now: u64) -> bool {
        self.renew.is_some_and(|renew| renew <= now)
    }
}

impl Controller {
    /// All other overlays.
    pub fn peerings(&self) -> Vec<PeeringView> {
        let state = self.in_force.lock().published.clone();
        let peerings = state.tree.peerings();
        peerings
            .map(|(key, peering)| PeeringView::of(key, peering))
            .collect()
    }

    /// Other overlays whose bundles should be taken anew.
    pub(super) fn due_peerings(&self) -> Vec<PeeringView> {
        let now = unix_seconds();
        let mut peerings = self.peerings();
        peerings.retain(|peering| peering.is_due(now));
        peerings
    }

    /// The description of this overlay for the operator of another one: with the nodes at the border to that one, or all nodes where our
    /// devices enter.
    ///
    /// # Errors
    /// There is no such peering, no node can be connected to, or the store cannot be read.
    pub fn export_peering(&self, to: Option<&Name>) -> Result<String, NotChanged> {
        let state = self.in_force.lock().published.clone();
        let border = border(&state.tree, to)?;
        let bundle = self.authority.authorities_pem();
        let bundle = bundle.map_err(|error| NotChanged::Store(error.to_string()))?;
        let spec = json!({
            "domain": state.domain(&self.about.trust_domain),
            "bundle": { "inline": bundle },
            "border": border,
            "at": [],
        });
        let described = resource("Peering", &self.about.overlay, &spec)?;
        Ok(described.to_yaml())
    }

    /// Takes a description in; returns the change, and the resources that it wrote.
    ///
    /// # Errors
    /// It is no description, or see [`NotChanged`].
    pub fn import_peering(&self, asked: &Import) -> Result<(Changed, Vec<Resource>), NotChanged> {
        let described = described(asked)?;
        let described = described.written();
        let state = self.in_force.lock().published.clone();
        let mut made = vec![imported(&state, asked, described)?];
        let domain = described["domain"].as_str().unwrap_or_default();
        if !asked.allow.is_empty() {
            let rule = json!({
                "match": { "target": format!("*.{domain}"), "user": asked.allow },
                "allow": true,
            });
            let name = format!("peering-{}", made[0].key().name);
            let name = name
                .parse()
                .map_err(|error| invalid(format!("{name}: {error}")))?;
            made.push(resource("Policy", &name, &json!({ "rules": [rule] }))?);
        }
        // The peering of before is part of it.
        let how = How {
            base: asked.how.base.or(Some(state.revision)),
            ..asked.how.clone()
        };
        let changed = self.add(&made, &how)?;
        Ok((changed, made))
    }
}

/// Our nodes at the border, as others reach them.
fn border(tree: &Tree, to: Option<&Name>) -> Result<Vec<Json>, NotChanged> {
    let chosen = match to {
        None => None,
        Some(name) => {
            let key = Key::new(Kind::Peering, name.clone());
            let Some(Spec::Peering(peering)) = tree.resource(&key).map(Resource::spec) else {
                return Err(invalid(format!("there is no {key}")));
            };
            Some(&peering.at)
        }
    };
    let nodes = tree.proxies().filter(|(key, node)| match chosen {
        Some(chosen) => chosen.contains(&key.name),
        None => node.ingress,
    });
    let nodes = nodes.filter(|(_, node)| !node.reach.is_empty());
    let border = nodes.map(|(key, node)| {
        let reach: Vec<String> = node.reach.iter().map(ToString::to_string).collect();
        json!({ "node": key.name, "reach": reach })
    });
    let border: Vec<Json> = border.collect();
    match border.is_empty() {
        true => Err(invalid(
            "no node of ours can be connected to: one with `listen` and `reach` has to be at the border".to_owned(),
        )),
        false => Ok(border),
    }
}

/// The Peering in a file.
fn described(asked: &Import) -> Result<Resource, NotChanged> {
    let source = Source {
        name: asked.file.as_ref(),
        text: &asked.text,
    };
    let read = resources::read(&[source]).map_err(NotChanged::Invalid)?;
    let mut peerings = read.of_kind(Kind::Peering);
    match (peerings.next(), read.len()) {
        (Some(peering), 1) if is_whole(peering) => Ok(peering.clone()),
        _ => Err(invalid(format!(
            "{}: it holds not one Peering, as `hermes peering export` prints it",
            asked.file
        ))),
    }
}

/// Whether a description has its authorities in it: a file of ours would not be theirs to name.
fn is_whole(peering: &Resource) -> bool {
    match peering.spec() {
        Spec::Peering(peering) => matches!(peering.bundle, DataSource::Inline(_)),
        _ => false,
    }
}

/// The peering of before with the domain, authorities and nodes of a description.
fn imported(state: &Published, asked: &Import, described: &Json) -> Result<Resource, NotChanged> {
    let domain = described["domain"].as_str().unwrap_or_default();
    let known = state
        .tree
        .peerings()
        .find(|(_, peering)| peering.domain == domain);
    let name = match (&asked.name, known) {
        (Some(name), Some((key, _))) if *name != key.name => {
            return Err(invalid(format!("{domain} is known already, as {key}")));
        }
        (Some(name), _) => name.clone(),
        (None, Some((key, _))) => key.name.clone(),
        (None, None) => first_label(domain)?,
    };
    let key = Key::new(Kind::Peering, name);
    // The name could be another overlay's, whose exports would be handed over.
    let before = state.tree.resource(&key);
    if before.is_some() && known.is_none() {
        let reason = format!("{key} is another overlay: choose a name with --name");
        return Err(invalid(reason));
    }

    let mut spec = before.map_or_else(|| json!({}), |before| before.written().clone());
    for field in ["domain", "bundle", "border"] {
        spec[field] = described[field].clone();
    }
    if !asked.at.is_empty() {
        spec["at"] = json!(asked.at);
    } else if before.is_none() {
        let ingresses = state.tree.proxies().filter(|(_, node)| node.ingress);
        spec["at"] = ingresses.map(|(key, _)| json!(key.name)).collect();
    }
    if !asked.exports.is_empty() {
        let exports = asked.exports.iter().map(|name| match asked.to.is_empty() {
            true => json!({ "name": name }),
            false => json!({ "name": name, "to": asked.to }),
        });
        spec["exports"] = exports.collect();
    }
    if !asked.accepts.is_empty() {
        spec["accepts"] = json!(asked.accepts);
    }
    resource("Peering", &key.name, &spec)
}

/// The name of an overlay whose domain is the default one of its name.
fn first_label(domain: &str) -> Result<Name, NotChanged> {
    let label = domain.split('.').next().unwrap_or_default();
    let name = label.parse::<Name>();
    name.map_err(|_| invalid(format!("`{domain}` gives no name: choose one with --name")))
}

fn resource(kind: &str, name: &Name, spec: &Json) -> Result<Resource, NotChanged> {
    let json = json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let made = Resource::from_json(&json);
    made.map_err(|finding| NotChanged::Invalid(Findings(vec![finding])))
}

fn invalid(reason: String) -> NotChanged {
    NotChanged::Invalid(Findings(vec![Finding::from(Problem::new("", reason))]))
}
