//! Fields that the operator sets or removes: no one else writes them, under a name that only looks different or behind the content.

use hermes_config::model::{Document, FieldPattern};
use hermes_proto::fields::Fields;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};

use super::name_patterns::NamePatterns;
use super::remove_where;

/// Fields that a document sets, appends, removes, or lets an authorisation server write.
///
/// An origin that makes variables of names reads `x_tenant` as `x-tenant`, and some merge trailers into the head. So look-alikes
/// leave a head, and trailers lose all that look the same.
#[derive(Debug, Clone)]
pub struct ControlledFields {
    named: Vec<FieldPattern>,
    alike: NamePatterns,
}

impl ControlledFields {
    /// The overlay fields of requests.
    pub fn of_requests(document: &Document) -> Self {
        let listeners = document.listeners.values().flat_map(|listener| {
            let names = listener.set.keys().chain(listener.append.keys());
            names
                .map(|name| exactly(name))
                .chain(listener.remove.clone())
        });
        let routes = document.routes.iter().flat_map(|route| {
            let names = route.set.keys().chain(route.append.keys());
            names.map(|name| exactly(name)).chain(route.remove.clone())
        });
        let upstreams = document.upstreams.values().flat_map(|upstream| {
            let credentials = upstream.credentials.iter();
            let credentials = credentials.flat_map(|_| [AUTHORIZATION, PROXY_AUTHORIZATION]);
            let names = upstream.fields.keys().map(|name| exactly(name));
            names.chain(credentials.map(|name| exactly(name.as_str())))
        });
        let servers = document.authorize.iter();
        let servers = servers.flat_map(|server| server.allow_fields.clone());

        Self::new(listeners.chain(routes).chain(upstreams).chain(servers))
    }

    /// The overlay fields of answers.
    pub fn of_answers(document: &Document) -> Self {
        let answers = document
            .routes
            .iter()
            .filter_map(|route| route.answer.as_ref());
        Self::new(answers.flat_map(|answer| {
            let names = answer.set.keys().chain(answer.append.keys());
            names.map(|name| exactly(name)).chain(answer.remove.clone())
        }))
    }

    fn new(named: impl IntoIterator<Item = FieldPattern>) -> Self {
        let named: Vec<_> = named.into_iter().collect();
        Self {
            alike: NamePatterns::new(&named),
            named,
        }
    }

    /// Removes the names from a head that only look like these; `removed` is called with each.
    pub(crate) fn strip_alike(&self, fields: &mut Fields, removed: impl FnMut(&str)) {
        if self.alike.is_empty() {
            return;
        }
        let is_named = |name: &str| self.named.iter().any(|pattern| pattern.matches(name));
        remove_where(
            fields,
            |name| self.alike.covers(name) && !is_named(name),
            removed,
        );
    }

    /// Removes them and their look-alikes from trailers.
    pub(super) fn strip(&self, trailers: &mut Fields) {
        trailers.retain(|name| !self.alike.covers(&name));
    }
}

fn exactly(name: &str) -> FieldPattern {
    FieldPattern {
        prefix: name.to_ascii_lowercase(),
        wildcard: false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        let document = json!({
            "version": 1,
            "listeners": { "web": { "http": "127.0.0.1:1", "set": { "x-role": "guest", "a_b": "c" } } },
            "authorize": [{ "name": "asked", "url": "http://127.0.0.1:3/", "allow_fields": ["x-auth-*"] }],
            "routes": [{
                "to": "north",
                "remove": ["x-debug"],
                "answer": { "set": { "x-sec": "strong" }, "remove": ["server"] },
            }],
            "upstreams": { "north": { "endpoints": ["127.0.0.1:2"], "fields": { "X-Api-Key": "k" } } },
        });
        serde_json::from_value(document).unwrap()
    }

    fn fields(names: &[&'static str]) -> Fields {
        let one = HeaderValue::from_static("1");
        let mut fields = Fields::new();
        for name in names {
            fields.append(*name, &one);
        }
        fields
    }

    #[test]
    fn look_alikes_leave_a_head() {
        let controlled = ControlledFields::of_requests(&document());
        let mut head = fields(&[
            "x-role",
            "x_role",
            "a-b",
            "a_b",
            "x_api-key",
            "x_api_key",
            "x-debug",
            "x_debug",
            "x_auth_user",
            "accept",
        ]);
        controlled.strip_alike(&mut head, |_| {});
        let left: Vec<_> = head.names().map(|name| name.to_string()).collect();
        assert_eq!(left, ["x-role", "a_b", "x-debug", "accept"]);
    }

    #[test]
    fn trailers_have_none_of_them() {
        let mut trailers = fields(&["x-role", "x_api_key", "x-auth-user", "x-checksum", "x-sec"]);
        ControlledFields::of_requests(&document()).strip(&mut trailers);
        let left: Vec<_> = trailers.names().map(|name| name.to_string()).collect();
        assert_eq!(left, ["x-checksum", "x-sec"]);

        let mut trailers = fields(&["server", "x_sec", "x-checksum"]);
        ControlledFields::of_answers(&document()).strip(&mut trailers);
        let left: Vec<_> = trailers.names().map(|name| name.to_string()).collect();
        assert_eq!(left, ["x-checksum"]);
    }
}
