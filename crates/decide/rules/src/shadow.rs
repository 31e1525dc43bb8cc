//! Routes, and rules of the policy, that can never match, because an earlier one takes all their exchanges.
//!
//! Only certain cases are reported: a later route is shadowed if each condition of one earlier
//! route follows from its own conditions. Two earlier routes that together match everything, or two
//! regular expressions of which one includes the other, are not found.

use hermes_config::model::{
    FieldMatch, Match, PathMatch, PolicyRule, PortMatch, Route, TargetMatch, TextMatch, UserMatch,
};
use ipnet::IpNet;

use crate::route::host::HostTest;
use crate::route::index::Index;
use crate::route::{canonical_net, normalise_written};

/// A route or rule that can never match, and the earlier one that takes its exchanges; indices into the document's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadow {
    /// The route or rule that can never match.
    pub dead: usize,
    /// The first that takes everything it would match.
    pub by: usize,
}

/// The routes that can never match, each with the first route to blame.
pub fn shadows(routes: &[Route]) -> Vec<Shadow> {
    let index = Index::new(routes.iter().map(|route| &route.matches));
    let blame = |dead: usize| {
        let later = &routes[dead].matches;
        // The index keeps this from comparing every pair of thousands of routes.
        let mut earlier = index.wider(later).take_while(|route| *route < dead);
        let by = earlier.find(|route| implies(later, &routes[*route].matches))?;
        Some(Shadow { dead, by })
    };

    (0..routes.len()).filter_map(blame).collect()
}

/// The rules of a policy that can never match, each with the first rule to blame: one that decides on all exchanges of the other, at
/// all its hours.
pub fn shadowed_rules(rules: &[PolicyRule]) -> Vec<Shadow> {
    let index = Index::new(rules.iter().map(|rule| &rule.matches));
    let blame = |dead: usize| {
        let later = &rules[dead];
        // A rule that only sets fields goes on to the next, and one with hours does not hold all day.
        let decides = |earlier: &PolicyRule| {
            earlier.decides()
                && (earlier.hours.is_none() || earlier.hours == later.hours)
                && implies(&later.matches, &earlier.matches)
        };

        let mut earlier = index.wider(&later.matches).take_while(|rule| *rule < dead);
        let by = earlier.find(|rule| decides(&rules[*rule]))?;
        Some(Shadow { dead, by })
    };

    (0..rules.len()).filter_map(blame).collect()
}

/// Whether every exchange that matches `later` certainly matches `earlier`.
pub fn implies(later: &Match, earlier: &Match) -> bool {
    target_follows(later, earlier)
        && each(
            later.kind.as_deref(),
            earlier.kind.as_deref(),
            |one, two| one == two,
        )
        && port_follows(later, earlier)
        && each(
            later.authority.as_deref(),
            earlier.authority.as_deref(),
            target_implies,
        )
        && each(later.path.as_deref(), earlier.path.as_deref(), path_implies)
        && each(
            later.method.as_deref(),
            earlier.method.as_deref(),
            |one, two| one == two,
        )
        && each(
            later.protocol.as_deref(),
            earlier.protocol.as_deref(),
            |one, two| one.eq_ignore_ascii_case(two),
        )
        && fields_follow(later, earlier)
        && each(later.user.as_deref(), earlier.user.as_deref(), user_implies)
        && each(
            later.source.as_deref(),
            earlier.source.as_deref(),
            net_implies,
        )
        && each(
            later.listener.as_deref(),
            earlier.listener.as_deref(),
            |one, two| one == two,
        )
}

/// Whether each alternative of `later` implies some alternative of `earlier`; no condition at all is implied by anything.
fn each<T>(later: Option<&[T]>, earlier: Option<&[T]>, implies: impl Fn(&T, &T) -> bool) -> bool {
    let Some(earlier) = earlier else { return true };
    later.is_some_and(|later| {
        later
            .iter()
            .all(|one| earlier.iter().any(|two| implies(one, two)))
    })
}

/// Target conditions, with the port that `later` names beside them.
fn target_follows(later: &Match, earlier: &Match) -> bool {
    let Some(wanted) = earlier.target.as_deref() else {
        return true;
    };
    // `port: 443` beside a target says the same as the port in the target.
    let only = later.port.as_deref().and_then(single_port);
    match later.target.as_deref() {
        None => wanted
            .iter()
            .any(|two| is_any_host(two) && port_fits(only, two.port)),
        Some(own) => own.iter().all(|one| {
            wanted
                .iter()
                .any(|two| host_implies(one, two) && port_fits(one.port.or(only), two.port))
        }),
    }
}

fn is_any_host(condition: &TargetMatch) -> bool {
    matches!(HostTest::compile(&condition.host), HostTest::Suffix(suffix) if suffix.is_empty())
}

fn port_fits(known: Option<u16>, wanted: Option<u16>) -> bool {
    wanted.is_none() || known == wanted
}

/// The port, if ranges hold exactly one.
fn single_port(ranges: &[PortMatch]) -> Option<u16> {
    let first = ranges.first()?.low;
    ranges
        .iter()
        .all(|range| range.low == first && range.high == first)
        .then_some(first)
}

/// Port conditions, with the port in the targets of `later`.
fn port_follows(later: &Match, earlier: &Match) -> bool {
    let Some(wanted) = earlier.port.as_deref() else {
        return true;
    };
    let within = |low: u16, high: u16| {
        wanted
            .iter()
            .any(|range| range.low <= low && high <= range.high)
    };

    let by_range = later
        .port
        .as_deref()
        .is_some_and(|own| own.iter().all(|range| within(range.low, range.high)));
    let by_target = later.target.as_deref().is_some_and(|own| {
        own.iter()
            .all(|target| target.port.is_some_and(|port| within(port, port)))
    });

    by_range || by_target
}

fn host_implies(one: &TargetMatch, two: &TargetMatch) -> bool {
    HostTest::compile(&one.host).implies(&HostTest::compile(&two.host))
}

fn target_implies(one: &TargetMatch, two: &TargetMatch) -> bool {
    host_implies(one, two) && port_fits(one.port, two.port)
}

fn path_implies(one: &PathMatch, two: &PathMatch) -> bool {
    match (one, two) {
        (PathMatch::Exact(one), PathMatch::Exact(two)) => {
            normalise_written(one) == normalise_written(two)
        }
        (PathMatch::Exact(one) | PathMatch::Prefix(one), PathMatch::Prefix(two)) => {
            normalise_written(one).starts_with(&normalise_written(two))
        }
        (PathMatch::Exact(one), PathMatch::Regex(two)) => two.is_match(&normalise_written(one)),
        // Inclusion of regular expressions is not decided here, only equality.
        (PathMatch::Regex(one), PathMatch::Regex(two)) => one.as_str() == two.as_str(),
        _ => false,
    }
}

fn text_implies(one: &TextMatch, two: &TextMatch) -> bool {
    match one {
        TextMatch::Exact(text) => two.matches(text),
        TextMatch::Regex(_) => one == two,
    }
}

fn user_implies(one: &UserMatch, two: &UserMatch) -> bool {
    match (one, two) {
        (UserMatch::Pattern(one), UserMatch::Pattern(two)) => one.implies(two),
        (UserMatch::Pattern(one), UserMatch::Regex(two)) => {
            one.exact().is_some_and(|user| two.is_match(user))
        }
        (UserMatch::Regex(_) | UserMatch::Unknown, _) => one == two,
        (UserMatch::Pattern(_), UserMatch::Unknown) => false,
    }
}

fn net_implies(one: &IpNet, two: &IpNet) -> bool {
    canonical_net(*two).contains(&canonical_net(*one))
}

fn fields_follow(later: &Match, earlier: &Match) -> bool {
    earlier.fields.iter().all(|(name, wanted)| {
        let mut own = later
            .fields
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name));
        own.any(|(_, own)| field_implies(own, wanted))
    })
}

fn field_implies(one: &FieldMatch, two: &FieldMatch) -> bool {
    match (one, two) {
        (FieldMatch::Value(_), FieldMatch::Present(present)) => *present,
        (FieldMatch::Value(one), FieldMatch::Value(two)) => text_implies(one, two),
        (FieldMatch::Present(one), FieldMatch::Present(two)) => one == two,
        (FieldMatch::Present(_), FieldMatch::Value(_)) => false,
    }
}
