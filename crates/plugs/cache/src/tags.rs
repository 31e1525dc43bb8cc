//! Tags of a response, by which an operator purges it: `Cache-Tag: a, b`, and `Surrogate-Key: a b`.

use hermes_proto::fields::Fields;

use crate::control::joined;

/// Tags of one response; a response with more is not stored, as a purge could not find it by each of them.
#[doc(alias = "bound")]
const TAGS: usize = 128;

/// Bytes of the tags of one response; for the same reason.
#[doc(alias = "bound")]
const TAG_BYTES: usize = 8 << 10;

/// The tags of a response, sorted. The case of letters counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tags(Box<[Box<str>]>);

impl Tags {
    /// Those of a response; `None` if they are too many.
    pub(crate) fn of(response: &Fields) -> Option<Self> {
        let has_any = |name: &'static str| response.contains_key(name);
        if !has_any("cache-tag") && !has_any("surrogate-key") {
            return Some(Self::default());
        }
        let listed = joined(response, "cache-tag");
        let spaced = joined(response, "surrogate-key");
        if listed.len() + spaced.len() > TAG_BYTES {
            return None;
        }

        let listed = listed.split(',').map(str::trim);
        // The lines of a field are joined by commas, which separate its keys as well.
        let spaced = spaced.split([' ', '\t', ',']);
        let mut tags: Vec<Box<str>> = listed
            .chain(spaced)
            .filter(|tag| !tag.is_empty())
            .map(Box::from)
            .collect();
        tags.sort_unstable();
        tags.dedup();
        (tags.len() <= TAGS).then(|| Self(tags.into()))
    }

    /// Whether this one is among them.
    pub(crate) fn has(&self, tag: &str) -> bool {
        self.0.binary_search_by(|own| (**own).cmp(tag)).is_ok()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tag| &**tag)
    }

    /// Bytes that they take.
    pub(crate) fn size(&self) -> usize {
        let own = |tag: &str| tag.len() + size_of::<Box<str>>();
        self.iter().map(own).sum()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn tags(lines: &[(&'static str, &str)]) -> Option<Vec<String>> {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let tags = Tags::of(&fields)?;
        assert!(tags.iter().all(|tag| tags.has(tag)));
        Some(tags.iter().map(str::to_owned).collect())
    }

    #[test]
    fn both_fields_name_tags_in_their_own_form() {
        let lines = [
            ("cache-tag", "news, a b,"),
            ("cache-tag", "news"),
            ("surrogate-key", "home  page"),
            ("surrogate-key", "News"),
        ];
        let expected = ["News", "a b", "home", "news", "page"];
        assert_eq!(tags(&lines).unwrap(), expected);
        assert_eq!(tags(&[]).unwrap(), [""; 0]);
    }

    #[test]
    fn a_response_with_more_tags_than_a_purge_would_find_has_none_to_be_stored_by() {
        let many = |count: usize| {
            let names: Vec<_> = (0..count).map(|at| format!("t{at}")).collect();
            tags(&[("cache-tag", &names.join(","))])
        };
        assert_eq!(many(TAGS).unwrap().len(), TAGS);
        assert!(many(TAGS + 1).is_none());
        assert!(tags(&[("surrogate-key", &"x".repeat(TAG_BYTES + 1))]).is_none());
    }
}
