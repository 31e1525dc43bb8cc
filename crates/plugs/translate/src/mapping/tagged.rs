//! Entity tags of translated contents (RFC 9110, section 8.8.3): another content has another tag, which leads back to that of the new
//! interface.

use hermes_proto::fields::Fields;
use http::HeaderValue;

/// Marks the tag of an answer as one of a translated content, by this mapping.
pub(super) fn tag(fields: &mut Fields, digest: &str) {
    let tag = fields.get("etag");
    let tag = tag.and_then(|tag| tag.to_str().ok().map(str::to_owned));
    let marked = tag.and_then(|tag| {
        let opaque = tag.strip_suffix('"')?;
        HeaderValue::try_from(format!("{opaque}~{digest}\"")).ok()
    });
    if let Some(marked) = marked {
        fields.insert("etag", marked);
    }
}

/// Takes the mark off the tags by which a request is conditional. Tags of another mapping keep it, and match nothing.
pub(super) fn untag(fields: &mut Fields, digest: &str) {
    let mark = format!("~{digest}\"");
    for name in ["if-match", "if-none-match"] {
        let lines: Vec<String> = fields
            .values(name)
            .filter_map(|line| line.to_str().ok().map(str::to_owned))
            .collect();
        if !lines.iter().any(|line| line.contains(&mark)) {
            continue;
        }
        // All lines are written again, in their order.
        fields.remove(name);
        for line in lines {
            if let Ok(value) = HeaderValue::try_from(line.replace(&mark, "\"")) {
                fields.append(name, value);
            }
        }
    }
}
