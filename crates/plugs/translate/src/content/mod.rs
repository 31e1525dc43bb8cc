//! Contents: the form in which they come and go, and the changes on the way.

mod streamed;
mod whole;

use std::sync::Arc;

use hermes_proto::fields::Fields;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::Changes;
use crate::json::ScanBounds;
use crate::template::Scope;
use crate::unfit::Unfit;

use streamed::Streamed;
use whole::Whole;

/// The form of a content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContentForm {
    /// JSON.
    #[default]
    Json,
    /// Pairs of a form, `application/x-www-form-urlencoded`.
    Form,
    /// No content: as the form of what comes an empty object, and of what goes nothing.
    None,
}

/// The translation of a content.
#[derive(Debug, Clone)]
pub(crate) struct ContentPlan {
    pub(crate) from: ContentForm,
    pub(crate) to: ContentForm,
    /// The names to the part that is taken, before all else.
    pub(crate) take: Vec<String>,
    /// The names under which the whole is put, after all else.
    pub(crate) put: Vec<String>,
    pub(crate) changes: Changes,
    /// The changes of each element, where the content is an array and needs nothing else.
    pub(crate) element: Option<Changes>,
    pub(crate) bounds: ContentBounds,
}

/// How much a content may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentBounds {
    /// Bytes of a content, or of an element of a content that is translated element by element.
    pub(crate) bytes: usize,
    /// Arrays and objects within each other.
    pub(crate) depth: usize,
}

impl ContentBounds {
    fn of_scan(self) -> ScanBounds {
        ScanBounds {
            depth: self.depth,
            string: self.bytes,
        }
    }
}

/// The type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

impl ContentForm {
    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json | Self::None => "application/json",
            Self::Form => FORM,
        }
    }

    fn is_of(self, media_type: &str) -> bool {
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        let has_suffix = media_type.get(media_type.len().saturating_sub(5)..);
        match self {
            Self::Form => is(FORM),
            // RFC 6839, section 3.1.
            Self::Json => {
                is("application/json")
                    || has_suffix.is_some_and(|end| end.eq_ignore_ascii_case("+json"))
            }
            Self::None => true,
        }
    }

    /// Whether a content with these fields has this form, and is no compressed one.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn fits(self, fields: &Fields) -> Result<(), Unfit> {
        let unsupported = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let coding = fields.get("content-encoding");
        let coding = coding.and_then(|coding| coding.to_str().ok().map(str::to_owned));
        if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
            let reason = format!("its content is coded: {}", shown(&coding));
            return Err(Unfit::new(unsupported, reason));
        }
        // RFC 9110, section 8.3: a content without a type may be examined, which its translation does.
        let Some(kind) = fields.get("content-type") else {
            return Ok(());
        };
        let kind = kind.to_str().unwrap_or_default();
        let mut parts = kind.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        if !self.is_of(media_type) {
            let wanted = self.media_type();
            let reason = format!("its content is {}, not {wanted}", shown(media_type));
            return Err(Unfit::new(unsupported, reason));
        }
        // RFC 8259, section 8.1: JSON between systems is UTF-8.
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim_matches('"');
            let is_utf8 =
                value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("us-ascii");
            if name.eq_ignore_ascii_case("charset") && !is_utf8 {
                let reason = format!("its content is in {}, not in UTF-8", shown(value));
                return Err(Unfit::new(unsupported, reason));
            }
        }
        Ok(())
    }
}

/// A text of a stranger, as a reason shows it.
fn shown(text: &str) -> String {
    text.escape_debug().take(60).collect()
}

/// The translation of one content, piece by piece.
pub(crate) enum ContentTranslator {
    /// All of it is needed first.
    Whole(Whole),
    /// Elements go as they come.
    Streamed(Box<Streamed>),
}

impl ContentPlan {
    /// Begins with a content.
    pub(crate) fn begin(self: &Arc<Self>, scope: &Arc<Scope>) -> ContentTranslator {
        let plan = self.clone();
        let scope = scope.clone();
        match &self.element {
            Some(_) => ContentTranslator::Streamed(Box::new(Streamed::new(plan, scope))),
            None => ContentTranslator::Whole(Whole::new(plan, scope)),
        }
    }

    /// The fields of a message whose content is translated: its type is new, its length is not known yet, and no digest of the old one holds
    /// (RFC 9530, section 2).
    pub(crate) fn describe(&self, fields: &mut Fields) {
        for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
            fields.remove(name);
        }
        fields.remove("content-length");
        fields.remove("accept-ranges");
        // A type is kept where the form stays: a problem of RFC 9457 is one after the change, too.
        if self.to == ContentForm::None {
            fields.remove("content-type");
        } else if self.from != self.to || !fields.contains_key("content-type") {
            let media_type = HeaderValue::from_static(self.to.media_type());
            fields.insert("content-type", media_type);
        }
    }

    /// Whether it makes a content where none comes.
    pub(crate) fn makes(&self) -> bool {
        self.from == ContentForm::None && self.to != ContentForm::None
    }

    /// The changes of each element, where there are no others and both forms are JSON.
    pub(crate) fn elements(&self) -> Option<Changes> {
        let is_json = self.from == ContentForm::Json && self.to == ContentForm::Json;
        (is_json && !self.changes.is_empty()).then(|| self.changes.of_element())?
    }
}

impl ContentTranslator {
    /// Takes a piece; appends the translated bytes to `out`.
    ///
    /// # Errors
    /// The content cannot be translated.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Unfit> {
        match self {
            Self::Whole(whole) => whole.push(piece),
            Self::Streamed(streamed) => streamed.push(piece, out),
        }
    }

    /// The content ends here.
    ///
    /// # Errors
    /// The content cannot be translated.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        match self {
            Self::Whole(whole) => whole.finish(out),
            Self::Streamed(streamed) => streamed.finish(out),
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Whole(whole) => whole.held(),
            Self::Streamed(streamed) => streamed.held(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
