//! Credentials for an HTTP proxy: a name with its password, and further fields.

use serde_json::{Value as Json, json};

use crate::draft::Draft;
use crate::new_file::{NewFile, NewFileContent};
use crate::source::Node;

/// Parts of the names of secret fields: their values get a file of their own.
const SECRET: &[&str] = &[
    "authorization",
    "cookie",
    "token",
    "secret",
    "passw",
    "credential",
    "jwt",
    "api-key",
    "api_key",
    "apikey",
];

/// Fields that belong to the connection or to the proxy, which a configuration cannot write.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Puts `credentials` and `fields` into the upstream of this name.
pub(super) fn put(node: &Node, name: &str, subject: &str, upstream: &mut Json, draft: &mut Draft) {
    if let Some(user) = node.text("username") {
        let file = format!("{name}.password");
        let password = node.text("password").unwrap_or_default();
        draft.files.push(secret(&file, password));
        upstream["credentials"] = json!({ "user": user, "password_file": file });
    }

    let Some(headers) = node.field("headers") else {
        return;
    };
    headers.skip_all();
    let mut fields = json!({});
    for (header, value) in headers.entries() {
        let field = header.to_ascii_lowercase();
        match field_value(&field, value, upstream) {
            Ok(text) if is_secret(&field) => {
                let file = format!("{name}.{field}");
                draft.files.push(secret(&file, text));
                fields[field] = json!({ "file": file });
            }
            Ok(text) => fields[field] = json!(text),
            Err(reason) => draft.left_out(value.line, format!("{subject} header {header}"), reason),
        }
    }
    if fields != json!({}) {
        upstream["fields"] = fields;
    }
}

/// The one value of a field.
///
/// # Errors
/// Why it cannot be carried.
fn field_value<'a>(field: &str, value: &'a Node, upstream: &Json) -> Result<&'a str, &'static str> {
    if OURS.contains(&field) {
        return Err("it belongs to the connection, and the node writes it itself");
    }
    let has_credentials = upstream.get("credentials").is_some();
    if field.ends_with("authorization") && has_credentials {
        return Err("`credentials` of the upstream write it");
    }
    match value.items() {
        [one] => one.as_text().ok_or("its value is not text"),
        _ => Err("a field has one value"),
    }
}

fn is_secret(field: &str) -> bool {
    SECRET.iter().any(|part| field.contains(part))
}

/// A file with a secret.
pub(super) fn secret(name: &str, text: &str) -> NewFile {
    NewFile {
        name: name.to_owned(),
        content: NewFileContent::Secret(format!("{text}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    #[test]
    fn secrets_go_to_files_and_the_rest_stays() {
        let node = read(
            "{ username: a, password: b, headers: { X-Tenant: north, X-Api-Key: [k], Host: h, X-Two: [1, 2], Proxy-Authorization: z } }",
        );
        let mut upstream = json!({});
        let mut draft = Draft::default();
        put(
            &node.unwrap(),
            "office",
            "outbound office",
            &mut upstream,
            &mut draft,
        );
        let expected = json!({
            "credentials": { "user": "a", "password_file": "office.password" },
            "fields": { "x-tenant": "north", "x-api-key": { "file": "office.x-api-key" } },
        });
        assert_eq!(upstream, expected);

        let converted = draft.finish();
        let names: Vec<&str> = converted.files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["office.password", "office.x-api-key"]);
        assert_eq!(converted.notes.len(), 3, "{:?}", converted.notes);
    }
}
