//! Directives of `Cache-Control` (RFC 9111, section 5.2) and of targeted fields (RFC 9213).

use hermes_proto::fields::Fields;

/// The longest time that is told apart, in seconds (RFC 9111, section 1.2.2).
#[doc(alias = "bound")]
pub(crate) const LONGEST_SECONDS: u64 = 1 << 31;

/// Directives that are read of one message; a message with more counts as one that forbids storing.
#[doc(alias = "bound")]
const DIRECTIVES: usize = 64;

/// The targeted field that this cache obeys before `Cache-Control` (RFC 9213, section 3.1).
const TARGETED: &str = "cdn-cache-control";

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive {
    /// In lower case.
    name: String,
    argument: Argument,
}

/// The argument of a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    None,
    Token(String),
    Quoted(String),
}

/// The directives of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directives {
    list: Vec<Directive>,
    /// They come from a targeted field, which is for shared caches alone.
    pub(crate) is_targeted: bool,
}

impl Directives {
    /// Those of a response: of the targeted field if it has a valid one (RFC 9213, section 2.2), else of `Cache-Control`.
    pub(crate) fn of_response(fields: &Fields) -> Self {
        let targeted = parse(&joined(fields, TARGETED)).filter(|list| !list.is_empty());
        match targeted.filter(|list| list.iter().all(is_structured)) {
            Some(list) => Self {
                list,
                is_targeted: true,
            },
            None => Self::of_cache_control(fields),
        }
    }

    /// Those of a request. `Pragma: no-cache` counts where there is no `Cache-Control` (section 5.4).
    pub(crate) fn of_request(fields: &Fields) -> Self {
        if fields.contains_key("cache-control") {
            return Self::of_cache_control(fields);
        }
        let pragma = parse(&joined(fields, "pragma")).unwrap_or_default();
        let list = pragma.into_iter().filter(|one| one.name == "no-cache");
        Self {
            list: list.collect(),
            is_targeted: false,
        }
    }

    fn of_cache_control(fields: &Fields) -> Self {
        // Text that cannot be read may have forbidden anything.
        let list = parse(&joined(fields, "cache-control")).unwrap_or_else(|| {
            vec![Directive {
                name: "no-store".to_owned(),
                argument: Argument::None,
            }]
        });
        Self {
            list,
            is_targeted: false,
        }
    }

    /// Whether there is a directive of this name, with or without an argument.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.list.iter().any(|directive| directive.name == name)
    }

    /// Whether there is one of this name without an argument.
    pub(crate) fn has_bare(&self, name: &str) -> bool {
        let is_it = |one: &Directive| one.name == name && one.argument == Argument::None;
        self.list.iter().any(is_it)
    }

    /// The seconds of a directive. Of several the fewest count, and something else than a number counts as none left: both make a
    /// response stale (section 4.2.1).
    pub(crate) fn seconds(&self, name: &str) -> Option<u64> {
        let named = self.list.iter().filter(|directive| directive.name == name);
        named
            .map(|directive| match &directive.argument {
                Argument::None => 0,
                Argument::Token(text) | Argument::Quoted(text) => delta_seconds(text).unwrap_or(0),
            })
            .min()
    }
}

/// A number of seconds, at most [`LONGEST_SECONDS`] (section 1.2.2).
pub(crate) fn delta_seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(LONGEST_SECONDS).min(LONGEST_SECONDS))
}

/// The lines of a field as one (RFC 9110, section 5.3).
pub(crate) fn joined(fields: &Fields, name: &'static str) -> String {
    let mut text = String::new();
    for value in fields.values(name) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&String::from_utf8_lossy(value.as_bytes()));
    }
    text
}

/// The members of a comma-separated list. A comma in a quoted string separates nothing.
pub(crate) fn members(text: &str) -> Option<Vec<&str>> {
    let mut members = Vec::new();
    let mut start = 0;
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                members.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(text[start..].trim());
    members.retain(|member| !member.is_empty());
    (!is_quoted).then_some(members)
}

/// The directives of a text; `None` if it is no list, or too long a one.
fn parse(text: &str) -> Option<Vec<Directive>> {
    let members = members(text)?;
    if members.len() > DIRECTIVES {
        return None;
    }

    let directives = members.into_iter().map(|member| {
        let (name, argument) = member.split_once('=').unwrap_or((member, ""));
        let argument = match argument.trim() {
            "" if !member.contains('=') => Argument::None,
            quoted if quoted.starts_with('"') => Argument::Quoted(unquoted(quoted)),
            token => Argument::Token(token.to_owned()),
        };
        Directive {
            name: name.trim().to_ascii_lowercase(),
            argument,
        }
    });
    Some(directives.collect())
}

fn unquoted(quoted: &str) -> String {
    let inner = quoted.trim_matches('"');
    inner.replace('\\', "")
}

/// Whether it can be a member of a dictionary of structured fields; parameters count for nothing (RFC 9213, section 2.1).
fn is_structured(directive: &Directive) -> bool {
    let name = directive.name.split(';').next().unwrap_or_default().trim();
    let is_key =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
    let is_value = match &directive.argument {
        Argument::Token(text) => {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
        }
        Argument::None | Argument::Quoted(_) => true,
    };
    !name.is_empty() && name.bytes().all(is_key) && is_value
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            let name = HeaderName::from_static(name);
            fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    fn response(value: &str) -> Directives {
        Directives::of_response(&fields(&[("cache-control", value)]))
    }

    #[test]
    fn section_5_2_directives_are_read_in_any_case_and_form() {
        let control = response("MAX-AGE=\"60\" , Private=\"a, b\",,no-cache");
        assert_eq!(control.seconds("max-age"), Some(60));
        assert!(control.has("private") && !control.has_bare("private"));
        assert!(control.has_bare("no-cache") && !control.has("b"));
    }

    #[test]
    fn section_4_2_1_doubtful_seconds_make_a_response_stale() {
        for doubtful in [
            "max-age",
            "max-age=",
            "max-age=-1",
            "max-age=1.5",
            "max-age=a",
        ] {
            assert_eq!(response(doubtful).seconds("max-age"), Some(0), "{doubtful}");
        }
        assert_eq!(response("max-age=9, max-age=3").seconds("max-age"), Some(3));
    }

    #[test]
    fn section_1_2_2_longer_times_than_2_to_31_are_that() {
        let control = response("max-age=99999999999999999999999");
        assert_eq!(control.seconds("max-age"), Some(LONGEST_SECONDS));
    }

    #[test]
    fn control_that_cannot_be_read_forbids_storing() {
        assert!(response("max-age=60, x=\"open").has("no-store"));
        assert!(response(&"a,".repeat(DIRECTIVES + 1)).has("no-store"));
    }

    #[test]
    fn section_5_4_pragma_counts_without_cache_control_only() {
        let pragma = fields(&[("pragma", "no-cache")]);
        assert!(Directives::of_request(&pragma).has("no-cache"));
        let both = fields(&[("pragma", "no-cache"), ("cache-control", "max-age=1")]);
        assert!(!Directives::of_request(&both).has("no-cache"));
    }

    #[test]
    fn rfc_9213_section_2_2_a_valid_targeted_field_replaces_cache_control() {
        let lines = [
            ("cdn-cache-control", "max-age=5"),
            ("cache-control", "no-store"),
        ];
        let control = Directives::of_response(&fields(&lines));
        assert!(control.is_targeted && !control.has("no-store"));
        assert_eq!(control.seconds("max-age"), Some(5));
        for invalid in ["", "max-age=", "Ma x=1", "a=\"open"] {
            let lines = [
                ("cdn-cache-control", invalid),
                ("cache-control", "no-store"),
            ];
            assert!(
                Directives::of_response(&fields(&lines)).has("no-store"),
                "{invalid}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[ -~]{0,80}") {
            let control = response(&text);
            prop_assert!(control.list.len() <= DIRECTIVES);
            prop_assert!(control.seconds("max-age").unwrap_or(0) <= LONGEST_SECONDS);
        }
    }
}
