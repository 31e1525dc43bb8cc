//! Variables of the environment in scalars: `${NAME}`, `${NAME:-default}`; `$${` is `${` as it stands.

use crate::Problem;
use crate::path::{child, element};
use crate::tree::{Node, Value};

/// Stands between `${` and `}` for a secret that is not shown. It is not a valid name of a
/// variable, so that no loader accepts it.
pub(crate) const NOT_SHOWN: &str = "a secret, not shown";

/// Where variables come from.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands the variables of every value within the node. Keys are left as they are.
///
/// A scalar without quotes gets its type from the expanded text: `${PORT}` can be a number. The
/// content of a variable is not expanded again.
pub(crate) fn expand(node: &mut Node, env: Env<'_>, path: &str, problems: &mut Vec<Problem>) {
    match &mut node.value {
        Value::Text(text) if text.contains("${") => match expanded(text, env) {
            Err(reason) => {
                problems.push(Problem {
                    path: path.to_owned(),
                    ..reason.at(node)
                });
                node.value = Value::Unread;
            }
            Ok(expanded) => {
                let written = std::mem::take(text);
                node.variables = Some(written);
                node.value = match &mut node.plain {
                    Some(plain) => {
                        plain.clone_from(&expanded);
                        Value::of_plain(&expanded)
                    }
                    None => Value::Text(expanded),
                };
            }
        },
        Value::List(nodes) => {
            for (index, node) in nodes.iter_mut().enumerate() {
                expand(node, env, &element(path, index), problems);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                expand(&mut entry.node, env, &child(path, &entry.key), problems);
            }
        }
        _ => {}
    }
}

struct Wrong {
    reason: String,
    remedy: String,
}

impl Wrong {
    fn new(reason: String, remedy: impl Into<String>) -> Self {
        Self {
            reason,
            remedy: remedy.into(),
        }
    }

    fn at(self, node: &Node) -> Problem {
        Problem::at(&node.place, "", self.reason).remedy(self.remedy)
    }
}

fn expanded(text: &str, env: Env<'_>) -> Result<String, Wrong> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }

        out.push_str(before);
        let (inner, after) = after.split_once('}').ok_or_else(|| {
            Wrong::new(
                "a `${` is not closed".into(),
                "write $${ for ${ as it stands",
            )
        })?;

        out.push_str(&variable(inner, env)?);
        rest = after;
    }

    out.push_str(rest);
    Ok(out)
}

/// The value of `NAME` or `NAME:-default`; the default counts for an empty variable too, as in a shell.
fn variable(inner: &str, env: Env<'_>) -> Result<String, Wrong> {
    if inner == NOT_SHOWN {
        return Err(Wrong::new(
            "here was a secret, which is not shown when a document is written".into(),
            "write the secret, or a variable that holds it: ${NAME}",
        ));
    }

    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };

    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let wrong = name.bytes().position(|byte| !is_named(byte));
    let is_digit = |first: char| first.is_ascii_digit();
    if name.is_empty() || wrong.is_some() || name.starts_with(is_digit) {
        // The rest may be part of a secret in which `${` means nothing.
        let shown = wrong.map_or_else(|| name.to_owned(), |at| format!("{}…", &name[..at]));
        return Err(Wrong::new(
            format!("`{shown}` is not the name of a variable"),
            "write ${NAME} or ${NAME:-default}",
        ));
    }

    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Wrong::new(
            format!("the variable `{name}` is not set"),
            format!("set it, or write ${{{name}:-default}}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::expanded;

    fn expand(text: &str) -> Result<String, String> {
        let env = |name: &str| match name {
            "HOME" => Some("/home/alice".to_owned()),
            "EMPTY" => Some(String::new()),
            "SLY" => Some("${HOME}".to_owned()),
            _ => None,
        };
        expanded(text, &env).map_err(|wrong| wrong.reason)
    }

    #[test]
    fn variables_and_defaults_are_expanded() {
        for (text, meant) in [
            ("${HOME}/x", "/home/alice/x"),
            ("${HOME}${HOME}", "/home/alice/home/alice"),
            ("${NONE:-a:-b}", "a:-b"),
            ("${EMPTY}", ""),
            ("${EMPTY:-b}", "b"),
            ("${NONE:-}", ""),
            ("$HOME $ {}", "$HOME $ {}"),
        ] {
            assert_eq!(expand(text).as_deref(), Ok(meant), "{text}");
        }
    }

    #[test]
    fn a_doubled_dollar_keeps_the_text() {
        assert_eq!(
            expand("$${HOME} ${HOME}").as_deref(),
            Ok("${HOME} /home/alice")
        );
    }

    #[test]
    fn what_a_variable_contains_is_not_expanded_again() {
        assert_eq!(expand("${SLY}").as_deref(), Ok("${HOME}"));
    }

    #[test]
    fn what_only_looks_like_a_variable_is_not_shown_whole() {
        let error = expand("pa${s?918273}").unwrap_err();
        assert!(
            error.contains("`s…`") && !error.contains("918273"),
            "{error}"
        );
    }

    #[test]
    fn unset_and_broken_variables_are_refused() {
        assert_eq!(
            expand("${NONE}").unwrap_err(),
            "the variable `NONE` is not set"
        );
        for text in ["${", "${HOME", "${}", "${1A}", "${A B}", "${:-x}"] {
            assert!(expand(text).is_err(), "{text}");
        }
    }
}
