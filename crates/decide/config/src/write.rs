//! Documents as text: in the words of the reference, as short as a reader would write them.

use serde_json::{Map, Value as Json};

use crate::model::Document;
use crate::places::Places;
use crate::withhold::Spot;
use crate::{defaults, emit, schema, terse, withhold};

/// The document as YAML, for people. Loading it gives the same document, with one exception: secrets are not shown.
///
/// A secret is a text in place of a file (`inline`), the value of a field (`set`, `append`,
/// `match.fields`, `respond.fields`) that is named like credentials, and a part of such a value
/// that came from a variable of the environment. Where `places` knows the variables, they stand
/// there as in the file; otherwise a placeholder, which no loader takes. Files that hold secrets
/// are named, as always, and not read.
pub fn write(document: &Document, places: &Places) -> String {
    let mut root = said(document);
    replace(&mut root, &|spot, text| {
        withhold::instead(places, spot, text).or_else(|| withhold::escaped(text))
    });
    emit::document(&root)
}

/// The document as YAML with the secrets that were written into it, for no one but a later process
/// of the same node. Variables in values of fields stand there as in the file, if `places` knows
/// them.
pub fn write_whole(document: &Document, places: &Places) -> String {
    let mut root = said(document);
    replace(&mut root, &|spot, text| {
        withhold::variables(places, spot, text).or_else(|| withhold::escaped(text))
    });
    emit::document(&root)
}

/// The document as JSON with the same keys, for scripts. Secrets are as in [`write()`].
pub fn to_json(document: &Document, places: &Places) -> Json {
    let mut root = said(document);
    replace(&mut root, &|spot, text| {
        withhold::instead(places, spot, text)
    });
    Json::Object(root)
}

/// Keys and values as YAML, in the form of [`write()`]: for documents that a program makes. Text
/// that looks like a variable is escaped.
pub fn format(root: &Map<String, Json>) -> String {
    let mut root = root.clone();
    replace(&mut root, &|_, text| withhold::escaped(text));
    emit::document(&root)
}

/// Keys and values as YAML like [`format()`], with texts as they are: for readers that expand no variables.
pub fn format_as_written(root: &Map<String, Json>) -> String {
    emit::document(root)
}

fn replace(root: &mut Map<String, Json>, with: &impl Fn(&Spot<'_>, &str) -> Option<String>) {
    for (key, value) in root {
        withhold::replace(value, &Spot::Entry(&Spot::At(""), key), with);
    }
}

/// The content of a document, as it would be written, secrets included.
pub(crate) fn said(document: &Document) -> Map<String, Json> {
    // Every type of the model has texts for keys, so writing cannot fail.
    let mut root = serde_json::to_value(document).unwrap_or_default();
    terse::shorten(schema::cached(), &mut root);
    match root {
        Json::Object(mut root) => {
            defaults::take_back(&mut root);
            root
        }
        _ => Map::new(),
    }
}
