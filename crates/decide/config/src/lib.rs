//! What one node's configuration file says: YAML with positions, checked against the schema, typed.
//!
//! [`load`] reads a file and what it includes and gives either a [`model::Document`] or every [`Problem`] at once,
//! each with file, line, column, reason and, where possible, a remedy. The JSON Schema ([`schema()`]) is derived
//! from the model's types and is what files are checked against, so the two cannot differ.
//!
//! What it is not: it knows the form of a document, not its meaning. Dangling names, conflicting
//! ports and routes that never match are found by the rules crate, which points to them through
//! [`Places`]. Both are reported at once: for a document with problems, [`read`] also returns the
//! rest of it, and separates real findings in it from mere consequences.
//!
//! Documents are written, too: [`write()`] returns the text of one, in the words of the reference
//! and without secrets, and [`diff`] names the differences between two by the paths of their keys.
//!
//! Specifications: YAML 1.2.2 (core schema, without aliases, tags and several documents), JSON Schema 2020-12.
//!
//! Begin reading in `model/node.rs`, which has the keys of a document's top; the other files of `model` have those below.

mod align;
mod cases;
mod defaults;
mod diff;
mod emit;
mod env;
mod fuzz;
mod include;
mod load;
mod lost;
mod mend;
pub mod model;
mod nearest;
mod path;
mod place;
mod places;
mod problems;
mod schema;
mod secret;
mod terse;
mod tree;
mod walk;
mod withhold;
mod write;
mod yaml;

pub use cases::{Case, Cases, Expect, read_cases};
pub use diff::{Change, Kind, diff};
pub use fuzz::fuzz_one;
pub use load::{Flawed, Loaded, load, parse, read, read_text};
pub use lost::Lost;
pub use nearest::nearest;
pub use path::{Step, child, element, steps};
pub use place::Place;
pub use places::Places;
pub use problems::{Problem, Problems};
pub use schema::schema;
pub use secret::secret;
pub use write::{format, to_json, write, write_whole};
