//! Sizes and their budgets.

/// Something that has a size.
#[derive(Debug, PartialEq, Eq)]
pub struct Sized {
    /// `path` of a file, `path::function`, `path::Struct`, `crate::Name`, `crate`, `crate rooms`, or `crate circles`.
    pub subject: String,
    /// Where it stands, and on which line.
    pub path: String,
    pub line: usize,
    /// How large it is, in units.
    pub size: usize,
    pub unit: &'static str,
    /// How large it may be.
    pub budget: usize,
    /// The remedy.
    pub remedy: String,
}
