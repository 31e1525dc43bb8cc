//! Texts with variables: `/v2/people/{id}`, `{query.page}`, `{field.x-client}`.

use indexmap::IndexMap;

/// A text with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// The values of variables: parts of the old path by their names, `query.NAME`, `field.NAME`.
pub(crate) type Scope = IndexMap<String, String>;

impl Template {
    /// Reads a text; `{{` and `}}` are braces.
    ///
    /// # Errors
    /// A brace that is not closed, or not opened.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        // From brace to brace: each is a variable, or doubled.
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = after.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let inner = after
                    .strip_prefix('{')
                    .and_then(|inner| inner.split_once('}'));
                let (name, after) = inner.ok_or_else(|| {
                    format!(
                        "`{text}` has a brace that stands alone: write `{{{{` or `}}}}` for one"
                    )
                })?;
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Variable(name.to_owned()));
                rest = after;
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    /// Its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text with its variables' values, each of which `write` writes, given its name; `None` where one has no value.
    pub(crate) fn expand(
        &self,
        scope: &Scope,
        write: &dyn Fn(&str, &str, &mut String),
    ) -> Option<String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Variable(name) => write(name, scope.get(name)?, &mut text),
            }
        }
        Some(text)
    }

    /// The same, with values as they are.
    pub(crate) fn plain(&self, scope: &Scope) -> Option<String> {
        self.expand(scope, &|_, value, text| text.push_str(value))
    }
}
