//! An old interface of a service, served by a new one: `through: [ { translate: { file: FILE } } ]`.
//!
//! A mapping, which a file declares, says which requests speak the old interface, which request of the new one each of them becomes, and
//! how the answers go back: method, path, query, fields, status, and contents in JSON (RFC 8259) or as forms. Clients of both interfaces
//! are served at once. It is not a language: there are no conditions and no loops.
//!
//! - `json`: JSON in pieces, with places of its mistakes. `change`: changes to a value. `content`: whole contents, and arrays element by
//!   element. `mapping`: the file, and requests and answers by it. All of that is pure: bytes come in and go out.
//! - `trial`: the tests in a file, for `hermes translate test`.
//! - `handler`: a request on its way. Begin reading there. `mapped`: the file of a function, which a reload reads again.

mod change;
mod content;
mod handler;
mod json;
mod mapped;
mod mapping;
mod member_path;
mod pairs;
mod percent;
mod plug;
mod pumped;
mod settings;
mod template;
mod trial;
mod unfit;

pub use mapped::read_mapping;
pub use mapping::Mapping;
pub use mapping::file::MappingFile;
pub use mapping::mapping_schema;
pub use plug::register;
pub use trial::{Trial, run_trials};
