//! Other operators' overlays: their identities, and the names that they reach.

use std::collections::{BTreeMap, BTreeSet};

use hermes_config::element;
use hermes_config::model::{DataSource, HostMatch, TargetMatch, UserPattern};
use hermes_net::tls::{TlsSource, of_certificates};

use super::overlay::is_domain;
use super::report::Report;
use super::tenants::targets;
use crate::resources::specs::{ExportedName, PeeringSpec, exported};
use crate::resources::{Key, Kind, Spec};

/// Other overlays that one has to do with: each node at the border asks all of their rules.
#[doc(alias = "bound")]
const PEERINGS: usize = 64;

/// Nodes of another overlay at the border, and addresses of one.
#[doc(alias = "bound")]
const BORDER_NODES: usize = 32;

/// Authorities of another overlay: two generations of a few roots.
#[doc(alias = "bound")]
const AUTHORITIES: usize = 16;

/// Bytes of these.
#[doc(alias = "bound")]
const BUNDLE: usize = 64 << 10;

/// Names that are exported to one overlay, and users of one export.
#[doc(alias = "bound")]
const EXPORTS: usize = 1000;

pub(super) fn peerings(report: &mut Report<'_>) {
    let tree = report.tree;
    let mut owners: BTreeMap<&str, &Key> = BTreeMap::new();
    for (index, (key, peering)) in tree.peerings().enumerate() {
        if index == PEERINGS {
            let reason = format!("an overlay has at most {PEERINGS} others beside it");
            report.add(key, "metadata.name", reason, "remove some");
        }
        if !is_domain(&peering.domain) {
            let reason = format!(
                "`{}` is no domain of certificates",
                peering.domain.escape_debug()
            );
            let remedy = "write the domain that `hermes peering export` prints there";
            report.add(key, "spec.domain", reason, remedy);
        }
        // A certificate names a domain, and so could not say of which of the two it is.
        let owner = *owners.entry(&peering.domain).or_insert(key);
        if owner != key {
            let reason = format!("{} is of this domain already", report.whereabouts(owner));
            let remedy =
                "one of the overlays has to begin anew with `hermes controller --overlay NAME`";
            report.add(key, "spec.domain", reason, remedy);
        }
        bundle(key, &peering.bundle, report);
        border(key, peering, report);
        users(key, peering, report);
        exports(key, peering, report);
    }
}

fn bundle(key: &Key, bundle: &DataSource, report: &mut Report<'_>) {
    let field = "spec.bundle";
    let text = match bundle {
        DataSource::Inline(text) => text,
        DataSource::File(file) if file.0.is_absolute() => return,
        DataSource::File(_) => {
            let reason = "the file is read by our nodes at the border, wherever they run";
            return report.add(
                key,
                field,
                reason,
                "write its whole path, or `{ inline: PEM }`",
            );
        }
    };
    let remedy = "copy it from what `hermes peering export` prints there";
    if text.len() > BUNDLE {
        let reason = format!("the bundle has more than {} KiB", BUNDLE >> 10);
        return report.add(key, field, reason, remedy);
    }
    let reason = match of_certificates(TlsSource::Inline(text)) {
        Ok(found) if found.is_empty() => "it holds no certificate that can be read".to_owned(),
        Ok(found) if found.len() > AUTHORITIES => {
            format!(
                "it holds {} authorities, more than {AUTHORITIES}",
                found.len()
            )
        }
        Ok(_) => return,
        Err(error) => error.reason,
    };
    report.add(key, field, reason, remedy);
}

/// The nodes on both sides.
fn border(key: &Key, peering: &PeeringSpec, report: &mut Report<'_>) {
    let takes = !peering.exports.is_empty();
    if peering.at.is_empty() {
        let reason = "none of our nodes is at the border";
        report.add(key, "spec.at", reason, "name one that listens for others");
    }
    for (index, node) in peering.at.iter().enumerate() {
        let field = element("spec.at", index);
        if !report.refers_to_proxy(key, &field, node) {
            continue;
        }
        let listens = report
            .graph
            .node(node)
            .is_some_and(|node| node.listen.is_some());
        if takes && !listens {
            let reason = format!("`{node}` exports names, and no one can connect to it");
            report.add(
                key,
                &field,
                reason,
                "add `listen` and `reach` to it, or name another node",
            );
        }
    }

    if peering.border.is_empty() {
        let reason = "no node of the other overlay is at the border";
        report.add(
            key,
            "spec.border",
            reason,
            "add those that `hermes peering export` prints there",
        );
    }
    if peering.border.len() > BORDER_NODES {
        let reason = format!("more than {BORDER_NODES} nodes of the other overlay");
        report.add(key, "spec.border", reason, "name those that are nearest");
    }
    let mut known = BTreeSet::new();
    for (index, node) in peering.border.iter().enumerate() {
        let field = element("spec.border", index);
        if !known.insert(&node.node) {
            let reason = format!("`{}` is there already", node.node);
            report.add(
                key,
                &field,
                reason,
                "write all of its addresses in one `reach`",
            );
        }
        if node.reach.len() > BORDER_NODES {
            let reason = format!("the node has more than {BORDER_NODES} addresses");
            report.add(key, &field, reason, "write those that answer");
        }
    }
}

/// Users of the other overlay are named as that one calls them, and it alone knows its groups.
fn users(key: &Key, peering: &PeeringSpec, report: &mut Report<'_>) {
    for (index, field) in peering.accepts.iter().enumerate() {
        if field.matches("user") {
            let reason = "users are taken by `speaksFor`, under names of their own";
            report.add(
                key,
                &element("spec.accepts", index),
                reason,
                "name other fields",
            );
        }
    }
    for (index, user) in peering.speaks_for.iter().flatten().enumerate() {
        user_of(
            key,
            peering,
            &element("spec.speaksFor", index),
            user,
            report,
        );
    }
}

fn user_of(
    key: &Key,
    peering: &PeeringSpec,
    field: &str,
    user: &UserPattern,
    report: &mut Report<'_>,
) {
    if user.group().is_some() || user.claim_group().is_some() || user.is_certified_user() {
        let reason = format!("`{user}` is no user of the other overlay");
        report.add(key, field, reason, "write names, or patterns with one star");
    } else if user.to_string().ends_with(&format!("@{}", peering.domain)) {
        let reason = format!("`{user}` is the name of a user here");
        report.add(
            key,
            field,
            reason,
            "write it as the other overlay does, without its domain",
        );
    }
}

fn exports(key: &Key, peering: &PeeringSpec, report: &mut Report<'_>) {
    if peering.exports.len() > EXPORTS {
        let reason = format!("more than {EXPORTS} names are exported to one overlay");
        report.add(key, "spec.exports", reason, "export names with a star");
    }
    let mut first = BTreeSet::new();
    let mut owners = BTreeMap::new();
    for (index, export) in peering.exports.iter().enumerate() {
        let field = element("spec.exports", index);
        if !first.insert(&export.name) {
            let reason = format!("`{}` is exported already", export.name);
            report.add(key, &field, reason, "write all of its users in one `to`");
        }
        let users = export.to.iter().flatten();
        if export
            .to
            .as_ref()
            .is_some_and(|to| to.is_empty() || to.len() > EXPORTS)
        {
            let reason = format!("it is exported to no user, or to more than {EXPORTS}");
            report.add(
                key,
                &format!("{field}.to"),
                reason,
                "remove the key for all users",
            );
        }
        for (at, user) in users.enumerate() {
            let field = element(&format!("{field}.to"), at);
            user_of(key, peering, &field, user, report);
        }
        for target in exported_name(key, export, &field, report) {
            let owner = *owners.entry(target.clone()).or_insert(&export.name);
            if *owner != export.name {
                let reason = format!("`{target}` is exported already, as `{owner}`");
                report.add(
                    key,
                    &format!("{field}.name"),
                    reason,
                    "export one of the two",
                );
            }
        }
    }
}

/// The targets that are exported by an entry.
fn exported_name(
    key: &Key,
    export: &ExportedName,
    field: &str,
    report: &mut Report<'_>,
) -> Vec<String> {
    let field = format!("{field}.name");
    if !report.refers(key, &field, Kind::Name, &export.name) {
        return Vec::new();
    }
    let name = key.sibling(Kind::Name, &export.name);
    let Some(Spec::Name(spec)) = report.tree.resource(&name).map(|name| name.spec()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for target in targets(&name, spec) {
        if exported(&target, "domain").is_some() {
            found.push(target.to_string());
            continue;
        }
        let reason = format!("`{target}` of {name} cannot be told from names there");
        let remedy = "export names of hosts, which others ask for as NAME.DOMAIN";
        report.add(key, &field, reason, remedy);
    }
    found
}

/// Names and users of the other overlay are no one's here.
pub(super) fn foreign_names(report: &mut Report<'_>) {
    let tree = report.tree;
    let peerings: Vec<_> = tree.peerings().collect();
    for (peering_key, peering) in peerings {
        let suffix = format!("@{}", peering.domain);
        let place = report.whereabouts(peering_key);
        for resource in tree.resources() {
            let key = resource.key();
            match resource.spec() {
                Spec::Name(name) => {
                    let mut targets = targets(key, name).into_iter();
                    if let Some(target) = targets.find(|target| is_below(target, &peering.domain)) {
                        let reason = format!("`{target}` is a name of another overlay: {place}");
                        report.add(key, "spec.name", reason, "choose another name");
                    }
                }
                Spec::User(user) => {
                    let foreign = user.names.iter().position(|name| name.ends_with(&suffix));
                    if let Some(index) = foreign {
                        let reason = format!("it is a user of another overlay: {place}");
                        let remedy = "name that user in policies, as it is";
                        report.add(key, &element("spec.names", index), reason, remedy);
                    }
                }
                Spec::Tenant(tenant) => {
                    let members = tenant.members.iter();
                    let foreign = members
                        .map(ToString::to_string)
                        .position(|it| it.ends_with(&suffix));
                    if let Some(index) = foreign {
                        let reason = format!("it is a user of another overlay: {place}");
                        let remedy = "export names to that user";
                        report.add(key, &element("spec.members", index), reason, remedy);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a target is within a domain, and so would hide names of it.
pub(crate) fn is_below(target: &TargetMatch, domain: &str) -> bool {
    match &target.host {
        HostMatch::Exact(host) | HostMatch::Suffix(host) => {
            let host = host.trim_start_matches('.');
            host.strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        _ => false,
    }
}
