//! Files that a document needs beside it.

/// A file that the document names, and that has to be made beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its name, relative to the document.
    pub name: String,
    /// The content.
    pub content: NewFileContent,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewFileContent {
    /// This text, which only its owner may read.
    Secret(String),
    /// Users with their passwords, which are to be hashed.
    Users(Vec<NewUser>),
}

/// A user with a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}
