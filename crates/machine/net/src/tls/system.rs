//! The authorities that the system trusts: read at their first use, and again when someone asks for that.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustls::RootCertStore;

use super::file_error::TlsFileError;

/// The authorities of this process; `None` until first used.
static KNOWN: Mutex<Option<SystemAuthorities>> = Mutex::new(None);

/// Counts their changes, to be compared without a look at the disk.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone)]
struct SystemAuthorities {
    /// A digest of the certificates.
    digest: u64,
    store: Arc<RootCertStore>,
}

/// The number of the system's authorities in force, which changes with them.
#[must_use]
pub fn system_generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Reads the system's authorities again, if they are in use. Returns whether they have changed. It reads files.
///
/// # Errors
/// There are no readable authorities; then those from before stay in force.
pub fn reread_system_authorities() -> Result<bool, TlsFileError> {
    let Some(before) = KNOWN.lock().as_ref().map(|known| known.digest) else {
        return Ok(false);
    };
    // No lock is held while files are read.
    let read = load()?;
    let has_changed = read.digest != before;
    if has_changed {
        *KNOWN.lock() = Some(read);
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }
    Ok(has_changed)
}

/// The system's authorities.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, TlsFileError> {
    if let Some(known) = &*KNOWN.lock() {
        return Ok(known.store.clone());
    }
    let read = load()?;
    let mut known = KNOWN.lock();
    Ok(known.get_or_insert(read).store.clone())
}

/// Reads them; single ones that rustls cannot use are left out.
fn load() -> Result<SystemAuthorities, TlsFileError> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut hasher = DefaultHasher::new();
    for certificate in &found.certs {
        certificate.as_ref().hash(&mut hasher);
    }

    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(std::mem::take(&mut found.certs));
    if trusted.is_empty() {
        let why = found
            .errors
            .first()
            .map_or_else(|| "none found".to_owned(), ToString::to_string);
        let reason = format!("the system's trusted certificates cannot be loaded: {why}");
        return Err(TlsFileError::elsewhere("/etc/ssl/certs", reason)
            .remedy("install the package ca-certificates, or set ca_file"));
    }

    Ok(SystemAuthorities {
        digest: hasher.finish(),
        store: Arc::new(trusted),
    })
}
