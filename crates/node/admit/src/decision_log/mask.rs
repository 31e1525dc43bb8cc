//! Values that are left out of the log of decisions: credentials, those that the document names, and those that are too long.

use hermes_config::model::DecisionPointer;
use hermes_observe::DecisionLine;
use hermes_proto::fields::Fields;
use serde_json::{Map, Value};

/// Bytes of one decision: the queue for a file or a service stays below some tens of megabytes, whatever clients send.
#[doc(alias = "bound")]
const EVENT: usize = 16 * 1024;

/// The key of the pointers to values that were left out, as OPA has it.
pub(super) const ERASED: &str = "erased";

/// Parts of names of fields with credentials. Rather one field too many is left out than a password logged.
const SECRET: [&str; 10] = [
    "api-key",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "jwt",
    "passw",
    "secret",
    "token",
];

/// The parts that are left out of a decision that is too long, until it is short enough.
const LONG: [&str; 8] = [
    "/input/claims",
    "/input/fields",
    "/input/query",
    "/result/fields",
    "/result/answer_fields",
    "/input/path",
    "/result/reason",
    "/input",
];

/// Fields without those that are or may be secret; pointers to these, below `map`, are noted.
pub(super) fn without_secrets(fields: &Fields, map: &str, erased: &mut Vec<String>) -> Fields {
    let mut shown = Fields::with_capacity(fields.len(), fields.size());
    for (name, value) in fields {
        let is_secret = SECRET.iter().any(|part| name.contains(part));
        if !is_secret && !value.is_sensitive() {
            shown.append(name, value);
            continue;
        }

        let pointer = format!("{map}/{}", escaped(&name));
        if !erased.contains(&pointer) {
            erased.push(pointer);
        }
    }

    // Of a name that is secret in one line, no line is told.
    shown.retain(|name| !erased.contains(&format!("{map}/{}", escaped(&name))));
    shown
}

/// A name as a pointer has it (RFC 6901, section 3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The line of an event, without the values that `masked` names.
pub fn line(mut event: Map<String, Value>, masked: &[DecisionPointer]) -> DecisionLine {
    for pointer in masked {
        erase(&mut event, pointer.as_str());
    }

    let mut line = DecisionLine::new(&event);
    for pointer in LONG {
        if line.as_bytes().len() <= EVENT {
            break;
        }
        if erase(&mut event, pointer) {
            line = DecisionLine::new(&event);
        }
    }
    if line.as_bytes().len() > EVENT {
        // The names of the values that were left out are many.
        event.insert(ERASED.to_owned(), vec!["/input", "/result/fields"].into());
        line = DecisionLine::new(&event);
    }
    line
}

/// Leaves a part out and notes that; false if it is not there.
fn erase(event: &mut Map<String, Value>, pointer: &str) -> bool {
    if !remove(event, pointer) {
        return false;
    }
    if let Some(Value::Array(erased)) = event.get_mut(ERASED) {
        erased.push(pointer.into());
    }
    true
}

fn remove(event: &mut Map<String, Value>, pointer: &str) -> bool {
    let mut steps = pointer.split('/').skip(1).map(unescaped).peekable();
    let Some(first) = steps.next() else {
        return false;
    };
    if steps.peek().is_none() {
        return event.remove(&first).is_some();
    }

    let mut part = event.get_mut(&first);
    while let (Some(value), Some(step)) = (part.take(), steps.next()) {
        let is_last = steps.peek().is_none();
        match value {
            Value::Object(map) if is_last => {
                return map.remove(&step).is_some_and(|value| !value.is_null());
            }
            Value::Object(map) => part = map.get_mut(&step),
            Value::Array(list) => {
                let place = step.parse::<usize>().ok();
                let found = place.and_then(|place| list.get_mut(place));
                match found {
                    // The others keep their places.
                    Some(found) if is_last => return !found.take().is_null(),
                    found => part = found,
                }
            }
            _ => return false,
        }
    }
    false
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
