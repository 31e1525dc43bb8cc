//! Conditions on requests that functions, methods and comparisons state.

use super::condition::{Conjunction, HostPattern, Predicate, Scheme};

/// A condition that every request meets, or none.
pub(super) fn truth(is_true: bool) -> Predicate {
    match is_true {
        true => Predicate::Always,
        false => Predicate::Never,
    }
}

/// The opposite of a condition.
pub(super) fn not(condition: Predicate) -> Predicate {
    Predicate::Not(Box::new(condition))
}

/// Requests for hosts of this pattern.
pub(super) fn host(pattern: HostPattern) -> Predicate {
    Predicate::hosts(vec![pattern])
}

/// Requests for hosts that match this regular expression.
pub(super) fn matches(expression: String) -> Predicate {
    host(HostPattern::Matches(expression))
}

/// Requests whose URL starts with a scheme; `None` for other starts.
pub(super) fn scheme(start: &str) -> Option<Predicate> {
    let scheme = match start.trim_end_matches(['/', ':']) {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        // Schemes that an HTTP proxy is never asked for.
        "ftp" | "file" | "ws" | "wss" => return Some(Predicate::Never),
        _ => return None,
    };
    Some(Predicate::Is(Conjunction {
        scheme: Some(scheme),
        ..Conjunction::default()
    }))
}
