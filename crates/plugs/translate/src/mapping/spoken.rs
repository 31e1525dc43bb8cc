//! The marks by which requests of the old interface are known.

use hermes_proto::fields::Fields;
use hermes_proto::head::RequestHead;
use http::HeaderName;

/// A mark: all of its parts hold.
pub(super) struct Spoken {
    /// A prefix of whole segments, without a slash at its end.
    pub(super) path: Option<String>,
    /// Values of fields; an empty one: there is no such field.
    pub(super) fields: Vec<FieldMark>,
    /// A parameter of a media type.
    pub(super) media_type: Option<MediaTypeParameter>,
}

/// The value of a field.
pub(super) struct FieldMark {
    pub(super) name: HeaderName,
    pub(super) value: String,
}

/// A parameter of a media type.
pub(super) struct MediaTypeParameter {
    pub(super) name: String,
    pub(super) value: String,
}

impl Spoken {
    /// Whether a request has it.
    pub(super) fn is_in(&self, head: &RequestHead) -> bool {
        let path = self.path.as_ref().is_none_or(|prefix| {
            let rest = head.path().strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let has = |mark: &FieldMark| {
            let mut values = head.fields.values(&mark.name);
            match mark.value.is_empty() {
                true => values.next().is_none(),
                false => values.any(|value| value == mark.value.as_str()),
            }
        };
        let media_type = self.media_type.as_ref();
        path && self.fields.iter().all(has)
            && media_type.is_none_or(|parameter| parameter.is_in(&head.fields))
    }

    /// The fields that it looks at.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let named = self.fields.iter().map(|mark| mark.name.as_str());
        named.chain(self.media_type.iter().map(|_| "accept"))
    }
}

impl MediaTypeParameter {
    fn is_in(&self, fields: &Fields) -> bool {
        let lines = fields.values("accept").chain(fields.values("content-type"));
        lines.into_iter().any(|line| {
            let line = line.to_str().unwrap_or_default();
            // Parameters of all types of the line: a client that names a version once speaks it.
            line.split([',', ';']).any(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                let is_name = name.trim().eq_ignore_ascii_case(&self.name);
                is_name && value.trim().trim_matches('"') == self.value
            })
        })
    }
}
