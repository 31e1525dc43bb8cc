//! Changes of a route in the answer to its client.

use hermes_admit::routed::Routed;
use hermes_config::model::AnswerChanges;
use hermes_http::{AnswerFields, NamePattern, RequestHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::fields::RESERVED;
use hermes_rules::{BadField, Values, apply};
use http::HeaderName;
use http::uri::PathAndQuery;

/// The changes in the answer to this request; `None` where its route has none.
///
/// # Errors
/// A value cannot be written.
pub(crate) fn of(routed: &Routed, head: &RequestHead) -> Result<Option<AnswerFields>, Refusal> {
    let Some(changes) = &routed.route.config.answer else {
        return Ok(None);
    };
    let values = Values {
        path: head.path.as_ref().map_or("", PathAndQuery::path),
        query: head.path.as_ref().and_then(PathAndQuery::query),
        method: head.method.as_str(),
        ..routed.values(&routed.target)
    };

    let changed = changed(changes, &values).map_err(|bad| {
        let details = format!("field {} of the answer: {}", bad.name, bad.reason);
        Refusal::new(ProxyError::ProxyInternalError, details)
    })?;
    Ok(Some(changed))
}

fn changed(changes: &AnswerChanges, values: &Values<'_>) -> Result<AnswerFields, BadField> {
    let nothing = Default::default();
    let mut set = Fields::new();
    let mut append = Fields::new();
    apply(&changes.set, &nothing, &[], &mut set, values)?;
    apply(&nothing, &changes.append, &[], &mut append, values)?;

    let patterns = changes.remove.iter().map(|pattern| NamePattern {
        prefix: pattern.prefix.as_str().into(),
        is_wildcard: pattern.wildcard,
        except: &RESERVED,
    });
    // A field that is set to an empty value is removed.
    let names = changes
        .set
        .keys()
        .filter_map(|name| name.parse::<HeaderName>().ok());
    let emptied = names
        .filter(|name| !set.contains_key(name))
        .map(|name| NamePattern {
            prefix: name.as_str().into(),
            is_wildcard: false,
            except: &RESERVED,
        });

    Ok(AnswerFields {
        remove: patterns.chain(emptied).collect(),
        set,
        append,
        ..AnswerFields::default()
    })
}
