//! Configurations of Envoy, sing-box, WireGuard (`wg-quick`) and proxy auto-configuration (PAC), as documents of Hermes.
//!
//! Pure functions convert the bytes of a file to a [`Converted`]: a document, the files that have
//! to stand beside it, and a [`Note`] with a line for everything that was left out or behaves
//! differently. The crate opens and writes no file (files that a source names, its caller reads),
//! resolves no name, and does not judge the document; `hermes check` does.
//!
//! Nothing is left out silently. A reader of `source` remembers which keys were looked at, and each
//! key that was not is noted. If a condition or a filter cannot be converted, its requests are
//! refused rather than let through.
//!
//! Specifications: the bootstrap of Envoy's API version 3, the JSON of sing-box 1.8 to 1.12, `wg-quick(8)`, and the functions of PAC files
//! as Netscape published them.
//!
//! Begin reading in `draft.rs`, which a document grows in; each format has a folder of its own.

mod conversion;
mod converted;
mod discovered;
mod draft;
mod envoy;
mod format;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod fuzz_tests;
mod new_file;
mod note;
mod pac;
mod quantity;
mod sing_box;
mod source;
mod text;
mod unreadable;
mod wireguard;

pub use conversion::{convert, convert_beside};
pub use converted::Converted;
pub use discovered::ReadBeside;
pub use format::{Format, recognize};
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use new_file::{NewFile, NewFileContent, NewUser};
pub use note::{Loss, Note};
pub use text::LONGEST;
pub use unreadable::Unreadable;
