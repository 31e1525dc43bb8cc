//! Log filters, such as `info` and `hermes_node=debug,info`: would anything be logged as they say?
//!
//! The logger itself takes any word for the name of a part of a program, and then logs nothing.

use hermes_config::nearest;

/// Levels, from the fewest lines to the most; digits mean the same.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Parts of the program that log.
pub const PARTS: [&str; 13] = [
    "hermes",
    "hermes_admit",
    "hermes_config",
    "hermes_exchange",
    "hermes_http",
    "hermes_listen",
    "hermes_net",
    "hermes_node",
    "hermes_plug",
    "hermes_proto",
    "hermes_proxy",
    "hermes_rules",
    "hermes_upstream",
];

/// The mistake in a filter, and its remedy; `None` for a valid one.
///
/// Parts of other programs (`h2=debug`) are taken as they are, unless they look like a mistyped one of ours.
pub fn mistake(filter: &str) -> Option<(String, String)> {
    filter
        .split(',')
        .map(str::trim)
        .find_map(|directive| match directive.split_once('=') {
            // Conditions on spans, which Hermes does not have, are the logger's business.
            _ if directive.contains('[') => None,
            None if is_level(directive) || is_part(directive) => None,
            None => Some((
                format!("`{directive}` is not a log level"),
                level_or_part(directive),
            )),
            Some((_, level)) if !is_level(level) => Some((
                format!("`{level}` is not a log level"),
                level_instead(level),
            )),
            Some((part, _)) if is_part(part) => None,
            Some((part, _)) => unknown(part),
        })
}

fn is_level(word: &str) -> bool {
    let digit = matches!(word.as_bytes(), [b'0'..=b'5']);
    digit || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

/// Whether it is a part of ours, or a module of one.
fn is_part(word: &str) -> bool {
    PARTS.contains(&word.split("::").next().unwrap_or_default())
}

fn unknown(part: &str) -> Option<(String, String)> {
    let name = part.split("::").next().unwrap_or_default();
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let near = nearest(name, PARTS.into_iter());

    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if name.starts_with("hermes") => format!("parts are {}", PARTS.join(", ")),
        None if !name.is_empty() && name.chars().all(letters) => return None,
        None => "write it like `hermes_proxy=debug,info`".to_owned(),
    };

    Some((format!("nothing is logged as `{part}`"), remedy))
}

fn level_instead(word: &str) -> String {
    match nearest(word, LEVELS.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("levels are {}", LEVELS.join(", ")),
    }
}

fn level_or_part(word: &str) -> String {
    match nearest(word, PARTS.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "{}; or write it like `hermes_proxy=debug,info`",
            level_instead(word).trim_end_matches('?')
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::mistake;

    #[test]
    fn levels_and_parts_with_levels_hold() {
        for filter in [
            "info",
            "DEBUG",
            "off",
            "4",
            "hermes_proxy=debug,info",
            "hermes_http::h2=trace",
            "h2=debug, warn",
            "[x{y=1}]=info",
        ] {
            assert_eq!(mistake(filter), None, "{filter}");
        }
    }

    #[test]
    fn what_would_log_nothing_is_refused() {
        for (filter, reason, remedy) in [
            ("loud", "`loud` is not a log level", "levels are off, error"),
            ("debg", "`debg` is not a log level", "did you mean `debug`"),
            ("", "`` is not a log level", "levels are"),
            (
                "info,hermes=loud",
                "`loud` is not a log level",
                "levels are",
            ),
            (
                "hermes_proxi=debug",
                "nothing is logged as `hermes_proxi`",
                "did you mean `hermes_proxy`?",
            ),
            (
                "hermes_something=debug",
                "nothing is logged as `hermes_something`",
                "parts are hermes, ",
            ),
            (
                "no thing=debug",
                "nothing is logged as `no thing`",
                "write it like",
            ),
        ] {
            let (said, mends) = mistake(filter).unwrap();
            assert!(
                said == reason && mends.contains(remedy),
                "{filter}: {said}; {mends}"
            );
        }
    }
}
