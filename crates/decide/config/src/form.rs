//! The form of documents for one program: that of the model, and of the settings that the program's plugs take.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use crate::Problems;
use crate::env::Env;
use crate::include::IncludeReader;
use crate::load::{Loaded, Unsound, read_by};
use crate::machine_names::{MachineName, machine_names};
use crate::model::Document;
use crate::reader::{NoFiles, SystemFiles};
use crate::schema::schema;

/// The form of documents for one program. The default one is for no program: it takes any settings.
#[derive(Debug, Clone)]
pub struct DocumentForm(Arc<Json>);

/// The settings that a plug takes in one of the places where a document can configure it.
#[derive(Debug, Clone)]
pub struct PlugForm {
    /// The place.
    pub place: PlugPlace,
    /// The plug's name there.
    pub name: String,
    /// The JSON Schema of its settings; `None` if it takes no settings there.
    pub schema: Option<Json>,
}

/// Where a document speaks to plugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlugPlace {
    /// `plugs`, for the whole node.
    Node,
    /// `ingress` of a listener.
    Ingress,
    /// `filter` of an entry of `authorize`.
    Filter,
    /// `handle` and `through` of a route, and `functions`.
    Handler,
    /// `through` of a route, and `functions`.
    Transform,
    /// `terminate.by` of a route.
    Connector,
    /// `broadcast.store` of a route.
    Store,
}

/// `through` of a route, in the schema of the model.
const ON_THE_WAY: &str = "/$defs/Route/properties/through/items/anyOf/1";

/// A function, there.
const FUNCTIONS: &str = "/properties/functions/additionalProperties/anyOf/1";

impl PlugPlace {
    const ALL: [Self; 7] = [
        Self::Node,
        Self::Ingress,
        Self::Filter,
        Self::Handler,
        Self::Transform,
        Self::Connector,
        Self::Store,
    ];

    /// The maps of names and settings, in the schema of the model.
    fn pointers(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["/properties/plugs"],
            Self::Ingress => &["/$defs/Listener/properties/ingress/anyOf/1"],
            Self::Filter => &["/$defs/Authorize/properties/filter/anyOf/1"],
            Self::Handler => &[
                "/$defs/Route/properties/handle/anyOf/1",
                ON_THE_WAY,
                FUNCTIONS,
            ],
            // After handlers: where both have a name, the transform is meant.
            Self::Transform => &[ON_THE_WAY, FUNCTIONS],
            Self::Connector => &["/$defs/TerminateBy/properties/by/anyOf/1"],
            Self::Store => &["/$defs/Broadcast/properties/store/anyOf/1"],
        }
    }
}

impl Default for DocumentForm {
    fn default() -> Self {
        Self(Arc::new(schema()))
    }
}

impl DocumentForm {
    /// The form for a program that has these plugs, and no others.
    pub fn new(plugs: &[PlugForm]) -> Self {
        Self(Arc::new(with_plugs(plugs, add)))
    }

    /// The form for a program that has these plugs; names of others are for it to tell, in its own words.
    pub fn open(plugs: &[PlugForm]) -> Self {
        Self(Arc::new(with_plugs(plugs, add_beside)))
    }

    /// The JSON Schema (draft 2020-12), for editors and other programs.
    pub fn schema(&self) -> &Json {
        &self.0
    }

    /// Reads a document of this form like [`load`](crate::load).
    ///
    /// # Errors
    /// Everything that is wrong with its form.
    pub fn load(&self, file: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
        Ok(read_by(
            &self.0,
            IncludeReader::new(env, &SystemFiles),
            file,
        )?)
    }

    /// Reads a document of this form like [`load`](crate::load), for those who show all that is wrong with it.
    ///
    /// # Errors
    /// Its form is not right; what can be read of it nevertheless.
    pub fn load_part(&self, file: &Path, env: Env<'_>) -> Result<Loaded, Unsound> {
        read_by(&self.0, IncludeReader::new(env, &SystemFiles), file)
    }

    /// Reads a document of this form like [`parse`](crate::parse), for those who show all that is wrong with it.
    ///
    /// # Errors
    /// As for [`DocumentForm::load_part`].
    pub fn parse_part(&self, name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Unsound> {
        let reader = IncludeReader::of_text(text.to_owned(), env, &SystemFiles);
        read_by(&self.0, reader, name)
    }

    /// Reads a document of this form like [`parse`](crate::parse).
    ///
    /// # Errors
    /// Everything that is wrong with its form.
    pub fn parse(&self, name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Problems> {
        let reader = IncludeReader::of_text(text.to_owned(), env, &SystemFiles);
        Ok(read_by(&self.0, reader, name)?)
    }

    /// Reads a document of this form like [`DocumentForm::parse`], for a text that comes from elsewhere: it includes no file of this
    /// machine.
    ///
    /// # Errors
    /// Everything that is wrong with its form, an `include` among it.
    pub fn parse_alone(&self, name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Problems> {
        let reader = IncludeReader::of_text(text.to_owned(), env, &NoFiles);
        Ok(read_by(&self.0, reader, name)?)
    }

    /// Files and Unix sockets of the machine that a document of this form names.
    pub fn machine_names(&self, document: &Document) -> Vec<MachineName> {
        machine_names(&self.0, document)
    }
}

/// The schema of documents, with the settings of plugs where documents speak to them.
fn with_plugs(plugs: &[PlugForm], add: fn(&mut Map<String, Json>, &Map<String, Json>)) -> Json {
    let mut schema = schema();
    for place in PlugPlace::ALL {
        let named = plugs.iter().filter(|plug| plug.place == place);
        let forms: Map<String, Json> = named
            .map(|plug| (plug.name.clone(), plug.schema.clone().unwrap_or_else(none)))
            .collect();
        for pointer in place.pointers() {
            let map = schema.pointer_mut(pointer);
            if let Some(map) = map.and_then(Json::as_object_mut) {
                add(map, &forms);
            }
        }
    }
    schema
}

/// Names in a map of names and settings these, beside those that it has, and takes no others.
fn add(map: &mut Map<String, Json>, forms: &Map<String, Json>) {
    add_beside(map, forms);
    map.insert("additionalProperties".to_owned(), json!(false));
}

/// Names these beside those that it has, and any others.
fn add_beside(map: &mut Map<String, Json>, forms: &Map<String, Json>) {
    let known = map.entry("properties").or_insert_with(|| json!({}));
    if let Some(known) = known.as_object_mut() {
        known.extend(forms.clone());
    }
}

/// The form of settings where no settings are taken.
fn none() -> Json {
    json!({ "type": "object", "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_one_of_the_schema() {
        let schema = schema();
        for place in PlugPlace::ALL {
            for pointer in place.pointers() {
                let map = schema.pointer(pointer);
                let takes_any = map.and_then(|map| map.get("additionalProperties"));
                assert!(takes_any.is_some_and(Json::is_object), "{pointer}");
            }
        }
    }

    #[test]
    fn a_mistake_in_settings_is_one_of_the_document() {
        let schema = json!({
            "type": "object",
            "properties": { "hosts": { "type": "array", "items": { "type": "string" } } },
            "additionalProperties": false,
        });
        let form = |place, schema| PlugForm {
            place,
            name: "only".to_owned(),
            schema,
        };
        let form = DocumentForm::new(&[
            form(PlugPlace::Node, Some(schema.clone())),
            form(PlugPlace::Transform, Some(schema)),
            form(PlugPlace::Handler, None),
        ]);
        let text = "version: 1\n\
             routes:\n  \
             - { to: next, through: [ only, { only: { host: [a] } } ] }\n  \
             - { handle: { only: { level: 1 } } }\n  \
             - { handle: { only: {}, more: {} } }\n\
             plugs:\n  only: { hosts: 5 }\n  onli: {}\n";
        let read = form.parse(Path::new("node.yaml"), text, &|_| None);
        let problems = read.unwrap_err().to_string();
        assert_eq!(
            problems.lines().collect::<Vec<_>>(),
            [
                "node.yaml:3:44: routes[0].through[1].only.host: unknown key; did you mean `hosts`?",
                "node.yaml:4:25: routes[1].handle.only.level: unknown key; there are none here",
                "node.yaml:5:7: routes[2].handle: the map has 2 keys, and may have 1; write each in a place of its own",
                "node.yaml:5:27: routes[2].handle.more: unknown key; keys here are only",
                "node.yaml:7:18: plugs.only.hosts: expected a list, found the number `5`; write a list: [5]",
                "node.yaml:8:3: plugs.onli: unknown key; did you mean `only`?",
            ]
        );
    }

    #[test]
    fn an_open_form_has_paths_of_its_file_and_leaves_plugs_that_it_does_not_know() {
        let path = json!({ "type": "string", "format": "hermes-path" });
        let schema = json!({ "type": "object", "properties": { "key": path }, "additionalProperties": false });
        let form = DocumentForm::open(&[PlugForm {
            name: "only".to_owned(),
            place: PlugPlace::Node,
            schema: Some(schema),
        }]);
        let text = "version: 1\nplugs: { only: { key: a.key }, other: { key: a.key } }\n";
        let read = form.parse_part(Path::new("/etc/hermes/node.yaml"), text, &|_| None);
        let plugs = read.unwrap().document.plugs;
        assert_eq!(plugs["only"]["key"], "/etc/hermes/a.key");
        assert_eq!(plugs["other"]["key"], "a.key");

        let text = "version: 1\nplugs: { only: { kex: a.key } }\n";
        let read = form.parse_part(Path::new("node.yaml"), text, &|_| None);
        let mistakes = read.unwrap_err().problems.to_string();
        assert_eq!(
            mistakes.trim_end(),
            "node.yaml:2:18: plugs.only.kex: unknown key; did you mean `key`?"
        );
    }
}
