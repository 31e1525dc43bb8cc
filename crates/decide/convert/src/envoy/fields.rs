//! Changes of header fields, and formats with commands such as `%DOWNSTREAM_REMOTE_ADDRESS%`.

use serde_json::{Map, Value as Json, json};

use crate::draft::Draft;
use crate::source::Node;

/// The changes of one route: its own first, then those of its virtual host and of the whole table.
#[derive(Debug, Default, Clone)]
pub(super) struct FieldChanges {
    set: Map<String, Json>,
    append: Map<String, Json>,
    remove: Vec<String>,
    /// Fields of answers.
    pub(super) answer: AnswerChanges,
}

/// Changes of the fields of answers.
#[derive(Debug, Default, Clone)]
pub(super) struct AnswerChanges {
    set: Map<String, Json>,
    append: Map<String, Json>,
    remove: Vec<String>,
}

impl FieldChanges {
    /// Adds those of a route, a virtual host or a table of routes.
    pub(super) fn add(&mut self, node: &Node, draft: &mut Draft) {
        for option in node.list("request_headers_to_add") {
            let Some(change) = change(option, draft) else {
                continue;
            };
            let into = match change.is_set {
                true => &mut self.set,
                false => &mut self.append,
            };
            insert(into, change, draft);
        }
        let removed = node.texts("request_headers_to_remove");
        self.remove.extend(removed.into_iter().map(str::to_owned));

        for option in node.list("response_headers_to_add") {
            let Some(change) = change(option, draft) else {
                continue;
            };
            let into = match change.is_set {
                true => &mut self.answer.set,
                false => &mut self.answer.append,
            };
            insert(into, change, draft);
        }
        let removed = node.texts("response_headers_to_remove");
        self.answer
            .remove
            .extend(removed.into_iter().map(str::to_owned));
    }

    /// Puts those of requests into a route.
    pub(super) fn put(self, route: &mut Json) {
        if !self.set.is_empty() {
            route["set"] = Json::Object(self.set);
        }
        if !self.append.is_empty() {
            route["append"] = Json::Object(self.append);
        }
        if !self.remove.is_empty() {
            route["remove"] = json!(self.remove);
        }
    }
}

impl AnswerChanges {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.append.is_empty() && self.remove.is_empty()
    }

    /// Writes them into a route; they change its answers from every source.
    pub(super) fn put(self, route: &mut Json) {
        if self.is_empty() {
            return;
        }
        let mut answer = json!({});
        if !self.set.is_empty() {
            answer["set"] = Json::Object(self.set);
        }
        if !self.append.is_empty() {
            answer["append"] = Json::Object(self.append);
        }
        if !self.remove.is_empty() {
            answer["remove"] = json!(self.remove);
        }
        route["answer"] = answer;
    }
}

/// One field and its value.
struct Change {
    line: u32,
    name: String,
    value: String,
    is_set: bool,
}

fn change(option: &Node, draft: &mut Draft) -> Option<Change> {
    let header = option.field("header")?;
    let name = header.text("key")?.to_ascii_lowercase();
    let written = header.text("value").unwrap_or_default();
    let appends = option.choice("append");
    let action = option
        .text("append_action")
        .unwrap_or("APPEND_IF_EXISTS_OR_ADD");
    option.skip(&["keep_empty_value"]);
    let is_set = match (action, appends) {
        (_, Some(appends)) => !appends,
        ("APPEND_IF_EXISTS_OR_ADD", None) => false,
        ("OVERWRITE_IF_EXISTS_OR_ADD", None) => true,
        (action, None) => {
            let reason = format!("{action} has no counterpart; a field is set or added");
            draft.left_out(option.line, format!("header {name}"), reason);
            return None;
        }
    };

    match template(written) {
        Ok(value) => Some(Change {
            line: option.line,
            name,
            value,
            is_set,
        }),
        Err(command) => {
            let reason = format!("`%{command}%` has no counterpart");
            draft.left_out(option.line, format!("header {name}"), reason);
            None
        }
    }
}

/// Adds a change. An earlier change is nearer to the route, and stays.
fn insert(into: &mut Map<String, Json>, change: Change, draft: &mut Draft) {
    if into.contains_key(&change.name) {
        let reason = "a field is set or added once on a route";
        draft.left_out(change.line, format!("header {}", change.name), reason);
        return;
    }
    into.insert(change.name, json!(change.value));
}

/// A format as a template of ours.
///
/// # Errors
/// The command that has no counterpart.
pub(super) fn template(format: &str) -> Result<String, String> {
    let mut template = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        template.push_str(&before.replace('{', "{{"));
        let (command, after) = after.split_once('%').ok_or_else(|| after.to_owned())?;
        template.push_str(match command {
            "" => "%",
            "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT"
            | "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT" => "{peer.address}",
            "DOWNSTREAM_REMOTE_ADDRESS" | "DOWNSTREAM_DIRECT_REMOTE_ADDRESS" => {
                "{peer.address}:{peer.port}"
            }
            "DOWNSTREAM_REMOTE_PORT" | "DOWNSTREAM_DIRECT_REMOTE_PORT" => "{peer.port}",
            "REQ(:AUTHORITY)" => "{target}",
            "REQ(:METHOD)" => "{method}",
            "REQ(:PATH)" => "{path}{query}",
            "DOWNSTREAM_PEER_URI_SAN" | "DOWNSTREAM_PEER_DNS_SAN" => "{tls.peer}",
            "ENVIRONMENT(HOSTNAME)" | "HOSTNAME" => "{node}",
            other => return Err(other.to_owned()),
        });
        rest = after;
    }
    template.push_str(&rest.replace('{', "{{"));
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    #[test]
    fn answers_are_changed_as_the_nearest_says() {
        let mut changes = FieldChanges::default();
        let mut draft = Draft::default();
        for text in [
            "response_headers_to_add: [ { header: { key: X-A, value: one }, append_action: OVERWRITE_IF_EXISTS_OR_ADD } ]",
            "{ response_headers_to_remove: [ server ], response_headers_to_add: [ { header: { key: x-a, value: two }, append: false } ] }",
            "response_headers_to_add: [ { header: { key: vary, value: origin } } ]",
        ] {
            changes.add(&read(text).unwrap(), &mut draft);
        }
        let mut route = json!({});
        changes.answer.put(&mut route);
        let expected = json!({ "set": { "x-a": "one" }, "append": { "vary": "origin" }, "remove": ["server"] });
        assert_eq!(route["answer"], expected);
        assert!(draft.finish().is_partial(), "`two` has to be told of");
    }

    #[test]
    fn commands_become_variables() {
        assert_eq!(template("100%% {x}").unwrap(), "100% {{x}");
        assert_eq!(
            template("for=%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%;").unwrap(),
            "for={peer.address};"
        );
        assert_eq!(template("%START_TIME%"), Err("START_TIME".to_owned()));
        assert!(template("50% off").is_err());
    }
}
