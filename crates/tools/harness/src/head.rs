//! A response head as a client saw it.

/// Start line and fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// The start line.
    pub line: String,
    /// Fields in their order, names in small letters.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head from its text, without the empty line that ends it.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let line = lines.next().unwrap_or_default().to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };

        Self {
            line,
            fields: lines.map(field).collect(),
        }
    }

    /// The status code of a response; 0 if there is none.
    pub fn status(&self) -> u16 {
        self.line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0)
    }

    /// All values of a field, joined as RFC 9110, 5.3 allows; `None` if it is absent.
    pub fn field(&self, name: &str) -> Option<String> {
        join(&self.fields, name)
    }
}

/// A `Proxy-Status` without the name of the refusal, which is another one each time.
///
/// # Panics
/// When it names no refusal.
pub fn unnamed(status: &str) -> &str {
    let (rest, name) = status
        .rsplit_once("; refusal=")
        .unwrap_or_else(|| panic!("{status} names no refusal"));
    assert_eq!(name.len(), 12, "{status}");
    rest
}

/// Values of `name`, joined with a comma.
pub(crate) fn join(fields: &[(String, String)], name: &str) -> Option<String> {
    let values: Vec<&str> = fields
        .iter()
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}
