//! A certificate that the node obtains itself: its key pair for handshakes, and its state.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hermes_config::Problem;
use hermes_config::model::Acme;
use hermes_net::clock::unix_seconds;
use hermes_net::tls::{self, Span, TlsFileError};
use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::Notify;

use crate::folder::{Folder, FolderError};
use crate::progress::{Progress, Record};
use crate::schedule::Lifetime;
use crate::tokens::Tokens;

/// The application protocol of a handshake by which an authority looks for its challenge (RFC 8737 section 3).
pub const ALPN: &[u8] = b"acme-tls/1";

/// The certificates of one configuration.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    managed: Vec<Arc<Managed>>,
    /// Tokens of open challenges, of the process.
    pub tokens: Arc<Tokens>,
}

impl Certificates {
    /// The certificates in `wanted`, each with the path of its key. Those in `previous` go on.
    /// `problems` get the unusable ones.
    pub fn read<'a>(
        previous: Option<&Self>,
        wanted: impl Iterator<Item = (String, &'a Acme)>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut certificates = Self {
            managed: Vec::new(),
            tokens: previous.map_or_else(Arc::default, |previous| previous.tokens.clone()),
        };
        for (path, settings) in wanted {
            // Several listeners may name the same certificate: one task orders it.
            if certificates.find(settings).is_some() {
                continue;
            }
            // The same object goes on, with its task and its failures: a reload orders nothing anew.
            let known = previous.and_then(|previous| previous.find(settings));
            match known.map_or_else(|| Managed::read(settings), Ok) {
                Ok(managed) => certificates.managed.push(managed),
                Err(error) => {
                    problems.push(Problem::new(path, error.reason).remedy(error.remedy));
                }
            }
        }
        certificates
    }

    /// The certificate with these settings.
    pub fn find(&self, settings: &Acme) -> Option<Arc<Managed>> {
        let mut all = self.managed.iter();
        all.find(|one| one.settings == *settings).cloned()
    }

    /// All certificates.
    pub fn all(&self) -> &[Arc<Managed>] {
        &self.managed
    }

    /// The progress of each.
    pub fn progress(&self) -> Vec<Progress> {
        let all = self.managed.iter();
        all.map(|managed| managed.progress()).collect()
    }
}

/// A certificate that the node obtains itself.
pub struct Managed {
    pub(crate) settings: Acme,
    pub(crate) folder: Folder,
    in_force: ArcSwapOption<CertifiedKey>,
    known: Mutex<Option<CertificateState>>,
    /// The answers to tls-alpn-01, by name.
    challenges: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    pub(crate) record: Mutex<Record>,
    /// Asks for the next attempt at once.
    pub(crate) nudged: Notify,
}

/// The state of the certificate in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CertificateState {
    pub(crate) lifetime: Lifetime,
    /// Whether it has the configured names, and is from the configured directory.
    pub(crate) is_wanted: bool,
}

impl Managed {
    /// A managed certificate, with the one that its folder holds in force.
    fn read(settings: &Acme) -> Result<Arc<Self>, FolderError> {
        let managed = Self {
            settings: settings.clone(),
            folder: Folder::of(settings),
            in_force: ArcSwapOption::empty(),
            known: Mutex::new(None),
            challenges: Mutex::default(),
            record: Mutex::default(),
            nudged: Notify::new(),
        };
        managed.load()?;
        Ok(Arc::new(managed))
    }

    /// Puts the certificate of the folder in force, if there is one. Reads files.
    pub(crate) fn load(&self) -> Result<(), FolderError> {
        self.folder.check()?;
        let Some(is_of_directory) = self.folder.is_of_directory()? else {
            return Ok(());
        };

        let file = &self.folder.certificate;
        let certified = tls::certified_key(file.into(), file.into()).map_err(unusable)?;
        let lifetime = lifetime(file).map_err(unusable)?;
        let is_wanted = is_of_directory && self.covers(&certified);
        self.in_force.store(Some(Arc::new(certified)));
        *self.known.lock() = Some(CertificateState {
            lifetime,
            is_wanted,
        });
        Ok(())
    }

    /// Whether a certificate has all names.
    pub(crate) fn covers(&self, certified: &CertifiedKey) -> bool {
        let names = certified
            .cert
            .first()
            .map(|own| tls::certificate_names(own));
        let names = names.map(|names| names.dns).unwrap_or_default();
        self.settings.domains.iter().all(|domain| {
            let mut names = names.iter();
            names.any(|name| name.eq_ignore_ascii_case(domain))
        })
    }

    /// The state of the certificate in force.
    pub(crate) fn known(&self) -> Option<CertificateState> {
        *self.known.lock()
    }

    /// The certificate in force.
    pub(crate) fn in_force(&self) -> Option<Arc<CertifiedKey>> {
        self.in_force.load_full()
    }

    /// Its progress.
    pub fn progress(&self) -> Progress {
        let has_one = self.in_force.load().is_some();
        let domains = &self.settings.domains;
        self.record
            .lock()
            .progress(domains, has_one, unix_seconds())
    }

    /// Tries again now, if the last attempt failed.
    pub(crate) fn nudge(&self) {
        if self.record.lock().in_a_row > 0 {
            self.nudged.notify_one();
        }
    }

    /// A secret that stays the same over renewals: the account. `None` before there is one.
    pub fn secret(&self) -> Option<String> {
        self.folder.account().ok().flatten()
    }

    /// Shows `certified` to the authority when it asks for `domain`, until the guard is dropped.
    pub(crate) fn show(self: &Arc<Self>, domain: &str, certified: CertifiedKey) -> ShownChallenge {
        let domain = domain.to_ascii_lowercase();
        self.challenges
            .lock()
            .insert(domain.clone(), Arc::new(certified));
        ShownChallenge {
            managed: self.clone(),
            domain,
        }
    }
}

fn lifetime(file: &Path) -> Result<Lifetime, TlsFileError> {
    Ok(lifetime_of(
        &tls::of_certificates(file.into())?,
        unix_seconds(),
    ))
}

/// The lifetime of a chain: the first certificate to end counts, as clients see it. An issuer that has ended does not: authorities
/// deliver some for the sake of old clients, and another order brings the same one.
fn lifetime_of(chain: &[Span], now: u64) -> Lifetime {
    let Some(own) = chain.first() else {
        return Lifetime { from: 0, until: 0 };
    };
    let issuers = chain[1..].iter().filter_map(|issuer| issuer.until);
    let own_end = own.until.unwrap_or(0);
    Lifetime {
        from: own.from,
        until: issuers.filter(|until| *until > now).fold(own_end, u64::min),
    }
}

fn unusable(error: TlsFileError) -> FolderError {
    let remedy = format!("remove {}: another is ordered then", error.name);
    FolderError {
        reason: format!("{}: {}", error.name, error.reason),
        remedy: error.remedy.unwrap_or(remedy),
    }
}

impl ResolvesServerCert for Managed {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737 section 3: the authority offers this protocol alone.
        let is_challenge = hello
            .alpn()
            .is_some_and(|mut offered| offered.next() == Some(ALPN) && offered.next().is_none());
        if is_challenge {
            let name = hello.server_name()?.to_ascii_lowercase();
            return self.challenges.lock().get(&name).cloned();
        }
        self.in_force.load_full()
    }
}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Managed({})", self.settings.domains.join(", "))
    }
}

/// A challenge that is shown.
#[derive(Debug)]
pub(crate) struct ShownChallenge {
    managed: Arc<Managed>,
    domain: String,
}

impl Drop for ShownChallenge {
    fn drop(&mut self) {
        self.managed.challenges.lock().remove(&self.domain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_that_has_ended_has_nothing_ordered() {
        let span = |until| Span {
            of: String::new(),
            from: 10,
            until: Some(until),
        };
        let until = |chain: &[Span]| lifetime_of(chain, 100).until;
        assert_eq!(until(&[span(900), span(300), span(50)]), 300);
        assert_eq!(until(&[span(900), span(50)]), 900);
        assert_eq!(until(&[span(60), span(300)]), 60);
        assert_eq!(until(&[]), 0);
    }
}
