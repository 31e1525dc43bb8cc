//! The overlay as a whole: one resource, and how changes of it spread.

use std::time::Duration;

use hermes_api::{Name, lifetime};

use super::report::Report;
use crate::resources::{Key, Kind, OverlaySpec, Spec};

/// Bytes of the longest trust domain: a SPIFFE ID and the DNS name of a node have to hold it and a node's name.
#[doc(alias = "bound")]
const LONGEST_DOMAIN: usize = 180;

/// The longest time for which the first nodes with a change are looked at.
#[doc(alias = "bound")]
const LONGEST_BAKE: Duration = Duration::from_secs(3600);

/// The longest time for which nodes believe certificates that should have been renewed.
const LONGEST_GRACE: Duration = Duration::from_secs(lifetime::LONGEST_GRACE);

/// Most nodes of each kind that try a change.
#[doc(alias = "bound")]
const CANARIES: u16 = 100;

pub(super) fn overlays(report: &mut Report<'_>) {
    let tree = report.tree;
    let mut first: Option<&Key> = None;
    for resource in tree.of_kind(Kind::Overlay) {
        let Spec::Overlay(overlay) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if let Some(first) = first {
            let reason = format!("{first} describes the overlay already");
            report.add(key, "metadata.name", reason, "keep one of them");
        }
        first = first.or(Some(key));

        let is_bad = |domain: &&String| !is_domain(domain);
        if let Some(domain) = overlay.trust_domain.as_ref().filter(is_bad) {
            let reason = format!("`{}` is no domain of certificates", domain.escape_debug());
            let remedy = "write lower-case names with dots between them: `overlay.example.org`";
            report.add(key, "spec.trustDomain", reason, remedy);
        }
        if overlay.grace.is_some_and(|grace| grace.0 > LONGEST_GRACE) {
            let reason = "nodes would believe a lost certificate for that long";
            report.add(
                key,
                "spec.grace",
                reason,
                "write at most 1440h, which is 60 days",
            );
        }
        rollout(key, overlay, report);
    }
}

fn rollout(key: &Key, overlay: &OverlaySpec, report: &mut Report<'_>) {
    let rollout = &overlay.rollout;
    if rollout
        .canary
        .is_some_and(|canary| !(1..=CANARIES).contains(&canary))
    {
        let reason = "a change is always tried by some nodes before the others";
        report.add(
            key,
            "spec.rollout.canary",
            reason,
            format!("write 1 to {CANARIES}"),
        );
    }
    if rollout.bake.is_some_and(|bake| bake.0 > LONGEST_BAKE) {
        let reason = "no other change could begin for that long";
        report.add(key, "spec.rollout.bake", reason, "write at most 1h");
    }
    let is_factor = |p99: f64| (1.0..=1000.0).contains(&p99);
    if rollout.stop_on.p99.is_some_and(|p99| !is_factor(p99)) {
        let reason = "it says how many times as long as before requests may take";
        report.add(
            key,
            "spec.rollout.stopOn.p99",
            reason,
            "write a number from 1, such as 1.5",
        );
    }
}

/// It stands in SPIFFE IDs and DNS names.
pub(super) fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| label.parse::<Name>().is_ok();
    text.len() <= LONGEST_DOMAIN && text.split('.').all(is_label)
}
