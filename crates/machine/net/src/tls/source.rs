//! Where certificates, keys and lists stand.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file_error::{TlsFileError, TlsPart};
use crate::read_at_most;

/// Bytes of one file: a list of 200,000 revoked certificates has 10 MiB as PEM.
#[doc(alias = "bound")]
pub const FILE_BYTES: u64 = 16 << 20;

/// Where a certificate, a key or a list stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TlsSource<'a> {
    /// In this file.
    File(&'a Path),
    /// In the configuration itself: this text. Nothing shows it.
    Inline(&'a str),
}

impl<'a> TlsSource<'a> {
    /// The content; `part` is what it is for.
    pub(super) fn read(self, part: TlsPart) -> Result<Cow<'a, [u8]>, TlsFileError> {
        match self {
            Self::Inline(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Self::File(file) => read_at_most(file, FILE_BYTES)
                .map(Cow::Owned)
                .map_err(|error| self.unreadable(part, &error)),
        }
    }

    /// The system's error with its file.
    pub(super) fn unreadable(self, part: TlsPart, error: &std::io::Error) -> TlsFileError {
        self.wrong(part, format!("cannot be read: {error}"))
    }

    /// A mistake in it.
    pub(super) fn wrong(self, part: TlsPart, reason: impl Into<String>) -> TlsFileError {
        TlsFileError {
            part: Some(part),
            name: self.to_string(),
            reason: reason.into(),
            remedy: None,
        }
    }
}

impl<'a> From<&'a Path> for TlsSource<'a> {
    fn from(file: &'a Path) -> Self {
        Self::File(file)
    }
}

impl<'a> From<&'a PathBuf> for TlsSource<'a> {
    fn from(file: &'a PathBuf) -> Self {
        Self::File(file)
    }
}

impl fmt::Display for TlsSource<'_> {
    /// The file's name, never the text.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(out),
            Self::Inline(_) => out.write_str("the inline value"),
        }
    }
}

impl fmt::Debug for TlsSource<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
