//! The configuration file of one node: YAML with positions, checked against the schema, typed.
//!
//! [`load`] reads a file and its includes and gives either a [`model::Document`] or every
//! [`Problem`] at once, each with file, line, column, reason and, where possible, a remedy. The
//! JSON Schema ([`schema()`]) is derived from the model's types and files are checked against it,
//! so the two cannot differ.
//!
//! The crate knows the form of a document, not its meaning. Dangling names, conflicting ports and
//! routes that never match are found by the rules crate, which points to them through [`Places`].
//! In a document that is not well-formed, the readable parts are searched for them
//! ([`SoundPart`]), without the findings that follow from the others. The form of a plug's settings
//! comes from the program that has the plug ([`DocumentForm`]).
//!
//! Documents are written, too: [`write()`] returns the text of one, in the words of the reference
//! and without secrets, and [`diff`] names the differences between two by the paths of their keys.
//!
//! Texts of several documents, as resources of a controller are written, are read by [`read_documents`].
//!
//! Specifications: YAML 1.2.2 (core schema, without aliases, tags and several documents), JSON Schema 2020-12.
//!
//! Begin reading in `model/node.rs`, which has the keys of a document's top; the other files of `model` have those below.

mod align;
mod cases;
mod defaults;
mod diff;
mod documents;
mod emit;
mod env;
mod form;
mod from_json;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod fuzz_tests;
mod include;
mod kinds;
mod load;
mod machine_names;
pub mod model;
mod nearest;
mod path;
mod place;
mod places;
mod problems;
mod reader;
mod schema;
mod secret;
mod sound_part;
mod terse;
mod tree;
mod walk;
mod withhold;
mod write;
mod yaml;

pub use cases::{Case, Cases, Expect, read_cases};
pub use diff::{Change, Kind, diff};
pub use documents::{WrittenDocument, WrittenDocuments, read_documents, schema_of};
pub use form::{DocumentForm, PlugForm, PlugPlace};
pub use from_json::from_json;
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use load::{Loaded, Unsound, load, load_from, parse};
pub use machine_names::{MachineName, MachineUsage};
pub use nearest::nearest;
pub use path::{child, element};
pub use place::Place;
pub use places::{Places, prefixes};
pub use problems::{Problem, Problems};
pub use reader::FileReader;
pub use schema::{schema, settings_schema};
pub use secret::secret;
pub use sound_part::SoundPart;
pub use write::{format, format_as_written, to_json, write, write_whole};
