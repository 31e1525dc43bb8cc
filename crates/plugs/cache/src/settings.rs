//! The settings of a cache: `through: [ { cache: {..} } ]`, and `plugs: { cache: {..} }`.

use std::path::PathBuf;

use hermes_config::Problem;
use hermes_config::model::ByteSize;
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

/// The longest content that is stored, where the settings do not say.
#[doc(alias = "bound")]
const OBJECT: u64 = 8 << 20;

/// The settings of `cache` where a route names it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CacheSettings {
    /// The longest content that is stored; 8MiB.
    object: Option<ByteSize>,
    /// Request fields that change no answer: they are not part of the key unless `Vary` names them. Default: none.
    unkeyed: Vec<String>,
    /// A name that keeps the responses of this cache apart from those of others. Routes that change requests to one origin in
    /// different ways need it. Default: one space for all.
    space: String,
}

/// The settings of the node's stored responses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodeSettings {
    /// Bytes of stored responses, of all routes and users together; 64MiB.
    pub(crate) memory: Option<ByteSize>,
    /// Where responses are kept on disk, too, so that they are there after a restart. Default: nowhere.
    pub(crate) disk: Option<DiskSettings>,
}

/// Stored responses on disk.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiskSettings {
    /// A folder of this node alone, as an absolute path; it is made if there is none.
    pub(crate) path: PathBuf,
    /// Bytes of it, of all users together; 1GiB.
    #[serde(default)]
    pub(crate) bytes: Option<ByteSize>,
}

/// Bytes on disk, where the settings do not say.
#[doc(alias = "bound")]
pub(crate) const DISK: u64 = 1 << 30;

/// The rules of a cache, with every default filled in.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Bytes of the longest content that is stored.
    pub(crate) object: u64,
    pub(crate) unkeyed: Vec<HeaderName>,
    pub(crate) space: String,
}

impl CacheSettings {
    /// The rules.
    ///
    /// # Errors
    /// A name of a field that is none, or that has to be part of the key.
    pub(crate) fn rules(&self) -> Result<Rules, Vec<Problem>> {
        let mut unkeyed = Vec::new();
        let mut wrong = Vec::new();
        for (at, name) in self.unkeyed.iter().enumerate() {
            let path = format!("unkeyed[{at}]");
            match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) if name == "cookie" => {
                    let problem = Problem::new(path, "answers to cookies are the user's own");
                    wrong.push(
                        problem.remedy("have a `Vary: Cookie` or remove the cookie on the way in"),
                    );
                }
                Ok(name) => unkeyed.push(name),
                Err(_) => {
                    let problem = Problem::new(path, "no name of a field");
                    wrong.push(problem.remedy("write one, such as `x-request-id`"));
                }
            }
        }
        if self.space.contains(char::is_whitespace) {
            let problem = Problem::new("space", "it has a space in it");
            wrong.push(problem.remedy("write one word"));
        }

        if wrong.is_empty() {
            Ok(Rules {
                object: self.object.map_or(OBJECT, |size| size.0),
                unkeyed,
                space: self.space.clone(),
            })
        } else {
            Err(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_at_once() {
        let settings = serde_json::json!({ "unkeyed": ["x-id", "a b", "Cookie"], "space": "a b" });
        let settings: CacheSettings = serde_json::from_value(settings).unwrap();
        let wrong = settings.rules().unwrap_err();
        let paths: Vec<_> = wrong.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["unkeyed[1]", "unkeyed[2]", "space"]);
        assert_eq!(CacheSettings::default().rules().unwrap().object, OBJECT);
    }
}
