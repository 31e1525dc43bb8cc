//! Extensions and the data that they name.

use crate::source::Node;

/// The last part of the type of an extension, such as `HttpConnectionManager`; its name where it has no type.
pub(super) fn kind(extension: &Node) -> String {
    extension.skip(&["name"]);
    let typed = extension.field("typed_config");
    let url = typed.and_then(|typed| typed.text("@type"));
    let name = url.or_else(|| extension.text("name")).unwrap_or_default();
    let last = name.rsplit(['/']).next().unwrap_or_default();
    let is_type = url.is_some();
    match is_type {
        true => last.trim_start_matches("envoy.").to_owned(),
        false => last.to_owned(),
    }
}

/// The configuration of an extension.
pub(super) fn config(extension: &Node) -> &Node {
    extension.field("typed_config").unwrap_or(extension)
}

/// The text of a data source: `filename`, or a text in the file itself.
pub(super) enum DataSource<'a> {
    File(&'a str),
    Inline(&'a str),
    Other,
}

pub(super) fn data_source(node: &Node) -> DataSource<'_> {
    if let Some(file) = node.text("filename") {
        DataSource::File(file)
    } else if let Some(text) = node.text("inline_string") {
        DataSource::Inline(text)
    } else {
        node.skip_all();
        DataSource::Other
    }
}
