//! The time as a rule, where a test replaces it: `with time.now_ns as 0`.
//!
//! The interpreter lets `with` replace its own builtins and parts of documents, but `time.now_ns`
//! is a builtin of ours. If some file replaces it, all files refer to a rule with its value
//! instead, which can be replaced.

/// The builtin that is called and replaced.
const BUILTIN: &str = "time.now_ns";

/// The rule.
const RULE: &str = "data.hermes_clock.now_ns";

/// The file that the rule is in.
pub(crate) const FILE: (&str, &str) = (
    "hermes_clock.rego",
    "package hermes_clock\nnow_ns := time.now_ns()\n",
);

/// The replacement for the name of the builtin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Call,
    Replacement,
    Other,
}

/// How the builtin is used that stands between these.
fn use_of(before: &str, after: &str) -> Use {
    let is_replaced = before
        .strip_suffix(char::is_whitespace)
        .is_some_and(|before| before.trim_end().ends_with("with"));
    if is_replaced && after.starts_with(char::is_whitespace) {
        Use::Replacement
    } else if after.starts_with("()") && !before.ends_with('.') {
        Use::Call
    } else {
        Use::Other
    }
}

/// Whether some test in this file replaces the time.
pub(crate) fn is_replaced_in(text: &str) -> bool {
    text.match_indices(BUILTIN).any(|(at, name)| {
        let after = &text[at + name.len()..];
        use_of(&text[..at], after) == Use::Replacement
    })
}

/// The same file with the rule in place of the builtin.
pub(crate) fn with_rule(text: &str) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let mut rest = 0;
    for (at, name) in text.match_indices(BUILTIN) {
        let end = at + name.len();
        let length = match use_of(&text[..at], &text[end..]) {
            Use::Call => end + "()".len(),
            Use::Replacement => end,
            Use::Other => continue,
        };
        rewritten.push_str(&text[rest..at]);
        rewritten.push_str(RULE);
        rest = length;
    }
    rewritten.push_str(&text[rest..]);
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_replacements_become_the_rule() {
        let text = "a if time.now_ns() > 5\nt if a with time.now_ns as 6 with input as {}\nb := x.time.now_ns";
        assert!(is_replaced_in(text) && !is_replaced_in("a if time.now_ns() > 5"));
        assert_eq!(
            with_rule(text),
            "a if data.hermes_clock.now_ns > 5\nt if a with data.hermes_clock.now_ns as 6 with input as {}\nb := x.time.now_ns"
        );
    }
}
