//! The action of a route that sends requests to clusters.

use serde_json::{Map, Value as Json, json};

use super::cluster::{Cluster, ClusterKind, Clusters};
use super::matcher::{Condition, Replaced, Unmatched};
use super::retry;
use super::scope::Tunnels;
use crate::draft::Draft;
use crate::quantity::duration;
use crate::source::Node;

/// A time-out of zero means none; ours always end.
const LONG: &str = "1h";

pub(super) struct Acting<'a> {
    pub(super) node: &'a Node,
    pub(super) condition: &'a Condition,
    pub(super) tunnels: Tunnels,
    pub(super) subject: &'a str,
    pub(super) clusters: &'a mut Clusters,
    pub(super) draft: &'a mut Draft,
}

/// Where a route leads.
struct Destination {
    /// Our name of the upstream; `None`: where the request says.
    upstream: Option<String>,
    /// As `host:port`, of the first endpoint.
    first: Option<String>,
    is_tls: bool,
}

impl Acting<'_> {
    /// Writes the action and its keys.
    pub(super) fn convert(&mut self, json: &mut Json) -> Result<(), Unmatched> {
        self.node
            .skip(&["upgrade_configs", "priority", "max_stream_duration"]);
        let destination = self.destination()?;
        self.lead(&destination, json)?;
        self.rewrite(&destination, json)?;
        self.timeouts(json);

        if let Some(policy) = self.node.field("retry_policy") {
            json["retry"] = retry::convert(policy, self.draft);
        }
        if let Some(mirrors) = self.node.field("request_mirror_policies") {
            mirrors.skip_all();
            let reason =
                "requests are not mirrored; `broadcast` sends copies where a request asks for it";
            self.draft.left_out(
                mirrors.line,
                format!("{} request_mirror_policies", self.subject),
                reason,
            );
        }
        Ok(())
    }

    fn destination(&mut self) -> Result<Destination, Unmatched> {
        if let Some(weighted) = self.node.field("weighted_clusters") {
            return self.weighted(weighted);
        }
        let Some(name) = self.node.text("cluster") else {
            self.node.skip(&[
                "cluster_header",
                "cluster_specifier_plugin",
                "inline_cluster_specifier_plugin",
            ]);
            let reason = "a cluster that a header or a plugin names has no counterpart";
            return Err(Unmatched::new(self.node, reason));
        };
        self.by_name(name)
    }

    fn by_name(&mut self, name: &str) -> Result<Destination, Unmatched> {
        let hash = self.hash();
        let Some(cluster) = self.clusters.get_mut(name) else {
            let reason = format!("there is no cluster {name} in the file");
            return Err(Unmatched::new(self.node, &reason));
        };
        match cluster.kind.clone() {
            ClusterKind::Dynamic => Ok(Destination {
                upstream: None,
                first: None,
                is_tls: false,
            }),
            ClusterKind::Endpoints { first, is_tls } => {
                if let Some(hash) = hash {
                    cluster
                        .upstream
                        .insert("balance".to_owned(), json!("ring_hash"));
                    cluster.upstream.insert("hash".to_owned(), hash);
                }
                Ok(Destination {
                    upstream: Some(cluster.used()),
                    first: Some(first.text()),
                    is_tls,
                })
            }
            ClusterKind::Unknown => {
                let reason = format!("the cluster {name} was not carried over");
                Err(Unmatched::new(self.node, &reason))
            }
        }
    }

    /// The key that chooses the endpoint.
    fn hash(&mut self) -> Option<Json> {
        let policies = self.node.list("hash_policy");
        let mut hashes = policies.iter().filter_map(|policy| {
            policy.skip(&["terminal"]);
            if let Some(header) = policy.field("header") {
                return header
                    .text("header_name")
                    .map(|name| json!({ "field": name }));
            }
            if let Some(cookie) = policy.field("cookie") {
                cookie.skip(&["ttl", "path"]);
                return cookie.text("name").map(|name| json!({ "cookie": name }));
            }
            let properties = policy.field("connection_properties")?;
            properties
                .flag("source_ip")
                .then(|| json!({ "source": true }))
        });
        let first = hashes.next();
        if policies.len() > 1 {
            let reason = "an endpoint is chosen by one value: the first";
            self.draft.differs(
                policies[1].line,
                format!("{} hash_policy", self.subject),
                reason,
            );
        }
        first
    }

    /// Weighted clusters with the same protocol become one upstream, with weights on its endpoints.
    fn weighted(&mut self, weighted: &Node) -> Result<Destination, Unmatched> {
        weighted.skip(&["total_weight"]);
        let mut parts = Vec::new();
        for entry in weighted.list("clusters") {
            let name = entry.text("name").unwrap_or_default();
            let weight = entry.number("weight").unwrap_or(0);
            if weight > 0 {
                parts.push(Weighted { name, weight });
            }
        }
        let mut merged = Merged::default();
        for part in &parts {
            let cluster = self.clusters.get(part.name);
            if !cluster.is_some_and(|cluster| merged.takes(cluster, part.weight)) {
                return self.heaviest(weighted, &parts);
            }
        }
        if let [only] = parts.as_slice() {
            return self.by_name(only.name);
        }
        let Some((first, is_tls)) = merged.first.clone() else {
            return Err(Unmatched::new(weighted, "no cluster has a weight"));
        };

        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        let name = self.draft.name(&names.join("-and-"));
        let upstream = merged.upstream();
        self.draft.upstreams.insert(name.clone(), upstream);
        Ok(Destination {
            upstream: Some(name),
            first: Some(first),
            is_tls,
        })
    }

    /// Clusters that cannot be one upstream: that which has most takes all.
    fn heaviest(
        &mut self,
        weighted: &Node,
        parts: &[Weighted<'_>],
    ) -> Result<Destination, Unmatched> {
        let heaviest = parts.iter().max_by_key(|part| part.weight);
        let name = heaviest.map_or("", |part| part.name);
        let reason = format!(
            "these clusters differ in their protocol, or one was not converted, so requests are not split: all go to {name}"
        );
        self.draft.left_out(
            weighted.line,
            format!("{} weighted_clusters", self.subject),
            reason,
        );
        self.by_name(name)
    }

    fn lead(&mut self, destination: &Destination, json: &mut Json) -> Result<(), Unmatched> {
        let is_post = !self.condition.is_tunnel && self.tunnels.by_post;
        if is_post {
            json["tunnel"] = json!("post");
            json["match"]["method"] = json!("POST");
        }
        let passes_on = self.condition.is_tunnel && !self.tunnels.ends_here;
        match &destination.upstream {
            Some(name) if passes_on => json["to"] = json!(name),
            Some(name) => json["terminate"] = json!(name),
            None if passes_on => {
                let reason = "a CONNECT that a target is asked for again has no counterpart";
                return Err(Unmatched::new(self.node, reason));
            }
            None => {
                json["terminate"] = json!(true);
                let reason = "requests reach public addresses; name private ones in `egress.allow`";
                self.draft.differs(
                    self.node.line,
                    format!("{} dynamic_forward_proxy", self.subject),
                    reason,
                );
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, destination: &Destination, json: &mut Json) -> Result<(), Unmatched> {
        let mut rewrite = json!({});
        let default = if destination.is_tls { 443 } else { 80 };
        if let Some(host) = self.node.text("host_rewrite_literal") {
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let target = match has_port {
                true => host.to_owned(),
                false => format!("{host}:{default}"),
            };
            rewrite["target"] = json!(target);
        } else if let Some(first) = self.first_host(destination) {
            rewrite["target"] = json!(first);
        }
        self.node.skip(&["append_x_forwarded_host"]);

        if let Some(with) = self.node.text("prefix_rewrite") {
            rewrite["path"] = self.path_rewrite(with)?;
        }
        if let Some(node) = self.node.field("regex_rewrite") {
            rewrite["path"] = by_expression(node)?;
        }
        for key in [
            "path_rewrite_policy",
            "host_rewrite_header",
            "host_rewrite_path_regex",
            "path_rewrite",
        ] {
            if let Some(node) = self.node.field(key) {
                node.skip_all();
                let reason = format!(
                    "`{key}` has no counterpart: a prefix of the path, or the whole target, is replaced"
                );
                return Err(Unmatched::new(node, &reason));
            }
        }
        if rewrite
            .as_object()
            .is_some_and(|rewrite| !rewrite.is_empty())
        {
            json["rewrite"] = rewrite;
        }
        Ok(())
    }

    /// The host of the server that takes the place of the client's, if Envoy says so.
    fn first_host<'b>(&self, destination: &'b Destination) -> Option<&'b str> {
        let rewrites = self.node.flag("auto_host_rewrite");
        let first = destination.first.as_deref().filter(|_| rewrites)?;
        (!first.starts_with("unix:")).then_some(first)
    }

    fn path_rewrite(&mut self, with: &str) -> Result<Json, Unmatched> {
        let prefix = match &self.condition.replaced {
            Some(Replaced::Prefix(prefix)) => prefix,
            Some(Replaced::Path(path)) => path,
            None => {
                let reason = "a prefix is replaced where the route matches one";
                return Err(Unmatched::new(self.node, reason));
            }
        };
        if !prefix.starts_with('/') || !with.starts_with('/') {
            let reason = "a prefix that does not begin with `/` is not replaced";
            return Err(Unmatched::new(self.node, reason));
        }
        let ends = matches!(&self.condition.replaced, Some(Replaced::Prefix(prefix)) if !prefix.ends_with('/'));
        if ends {
            let reason = "a prefix is replaced where a segment of the path ends with it: `/a` in `/a/b`, not in `/ab`";
            self.draft.differs(
                self.node.line,
                format!("{} prefix_rewrite", self.subject),
                reason,
            );
        }
        Ok(json!({ "prefix": prefix, "with": with }))
    }

    fn timeouts(&mut self, json: &mut Json) {
        let mut timeouts = json!({});
        if let Some(time) = self.node.milliseconds("timeout") {
            let is_endless = time == 0;
            if !self.condition.is_tunnel {
                timeouts["header"] = json!(if is_endless {
                    LONG.to_owned()
                } else {
                    duration(time)
                });
            }
            if !is_endless {
                let reason = "it bounds the wait for the head of the answer, not the whole of it";
                self.draft
                    .differs(self.node.line, format!("{} timeout", self.subject), reason);
            }
        }
        if let Some(time) = self
            .node
            .milliseconds("idle_timeout")
            .filter(|time| *time > 0)
        {
            timeouts["idle"] = json!(duration(time));
        }
        if timeouts
            .as_object()
            .is_some_and(|timeouts| !timeouts.is_empty())
        {
            json["timeouts"] = timeouts;
        }
    }
}

/// An expression that replaces a prefix which ends with a slash, as ours do: `^/a/(.*)$` by `/b/\1`, or `^/a/` by `/b/`.
fn by_expression(node: &Node) -> Result<Json, Unmatched> {
    let pattern = node.field("pattern");
    if let Some(pattern) = pattern {
        pattern.skip(&["google_re2"]);
    }
    let regex = pattern.and_then(|pattern| pattern.text("regex"));
    let with = node.text("substitution").unwrap_or_default();
    let anchored = regex.and_then(|regex| regex.strip_prefix('^'));
    let open = anchored.and_then(|rest| {
        let rest = rest.strip_suffix('$').unwrap_or(rest);
        rest.strip_suffix("(.*)")
    });
    let (prefix, with) = match (open, with.strip_suffix("\\1")) {
        (Some(prefix), Some(with)) => (prefix, with),
        _ => (anchored.unwrap_or_default(), with),
    };

    let is_path = |text: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "/-_~".contains(letter);
        text.starts_with('/') && text.ends_with('/') && text.chars().all(plain)
    };
    if is_path(prefix) && is_path(with) {
        return Ok(json!({ "prefix": prefix, "with": with }));
    }
    node.skip_all();
    let reason = "of expressions those are carried that replace a whole prefix, such as `^/a/(.*)$` by `/b/\\1`";
    Err(Unmatched::new(node, reason))
}

struct Weighted<'a> {
    name: &'a str,
    weight: u64,
}

/// Several clusters as one upstream.
#[derive(Default)]
struct Merged {
    manner: Option<Map<String, Json>>,
    /// Endpoints with the share that each has of all.
    endpoints: Vec<(String, f64)>,
    first: Option<(String, bool)>,
}

impl Merged {
    /// Adds a cluster, if it is spoken to as the others are.
    fn takes(&mut self, cluster: &Cluster, weight: u64) -> bool {
        let ClusterKind::Endpoints { first, is_tls } = &cluster.kind else {
            return false;
        };
        let manner = cluster.manner();
        if self.manner.as_ref().is_some_and(|known| *known != manner) {
            return false;
        }
        self.manner = Some(manner);
        self.first.get_or_insert_with(|| (first.text(), *is_tls));

        let endpoints = cluster.endpoints();
        let sum: u64 = endpoints.iter().map(|(_, weight)| weight).sum();
        for (address, own) in endpoints {
            let share = weight as f64 * own as f64 / sum.max(1) as f64;
            self.endpoints.push((address, share));
        }
        true
    }

    /// With weights from 1 to 1000.
    fn upstream(self) -> Json {
        let shares = self.endpoints.iter().map(|(_, share)| *share);
        let largest = shares.fold(0.0, f64::max);
        let weight = |share: f64| ((share / largest * 1000.0).round() as u64).max(1);
        let endpoints: Vec<Json> = self
            .endpoints
            .iter()
            .map(|(address, share)| json!({ "address": address, "weight": weight(*share) }))
            .collect();
        let mut upstream = self.manner.unwrap_or_default();
        upstream.insert("endpoints".to_owned(), json!(endpoints));
        Json::Object(upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    #[test]
    fn expressions_that_replace_a_prefix_are_carried() {
        let of = |regex: &str, with: &str| {
            let node = read(&format!(
                "{{ pattern: {{ regex: '{regex}' }}, substitution: '{with}' }}"
            ));
            by_expression(&node.unwrap()).ok()
        };
        let expected = Some(json!({ "prefix": "/a/", "with": "/b/" }));
        assert_eq!(of("^/a/(.*)$", "/b/\\1"), expected);
        assert_eq!(of("^/a/(.*)", "/b/\\1"), expected);
        assert_eq!(of("^/a/", "/b/"), expected);
        for (regex, with) in [
            ("/a/", "/b/"),
            ("^/a/(.*)$", "/b/"),
            ("^/a/$", "/b/"),
            ("^/a", "/b"),
            ("^/a.c/(.*)$", "/b/\\1"),
            ("^/a/(.*)$", "/b/\\1\\1"),
        ] {
            assert_eq!(of(regex, with), None, "{regex} {with}");
        }
    }
}
