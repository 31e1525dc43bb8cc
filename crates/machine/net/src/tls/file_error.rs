//! Mistakes in certificates, keys and lists.

use std::fmt;

/// The purpose of a file, or of the text in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    /// Our own certificate, and those that issued it.
    Certificate,
    /// Its private key.
    Key,
    /// Authorities to believe.
    Authorities,
    /// Lists of revoked certificates.
    RevocationLists,
}

/// A certificate, key or list that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFileError {
    /// Its purpose; `None` where no file of the configuration is at fault.
    pub part: Option<TlsPart>,
    /// The name of the file at fault, as an error shows it.
    pub name: String,
    /// The mistake in it.
    pub reason: String,
    /// How to mend it, where that is known.
    pub remedy: Option<String>,
}

impl TlsFileError {
    /// A mistake that is in no file of the configuration.
    pub(crate) fn elsewhere(name: &str, reason: impl Into<String>) -> Self {
        Self {
            part: None,
            name: name.to_owned(),
            reason: reason.into(),
            remedy: None,
        }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for TlsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TlsFileError {}
