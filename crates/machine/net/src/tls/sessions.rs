//! Sessions with servers, to be resumed no longer than the certificates hold by which the servers were believed.
//!
//! A resumed handshake shows no certificate: the verification at the session's beginning still
//! counts. So a session is dropped when the first of its certificates expires, and the next
//! handshake verifies the server's certificates of that time. Revocation needs no care here: a
//! changed list makes another configuration, with sessions of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, NamedGroup, SignatureScheme};

use super::revocation::RevocationCheck;
use crate::shown_chain::ShownChain;

/// Servers for which the validity of certificates is remembered; sessions of others are not
/// resumed.
#[doc(alias = "bound")]
const NAMES: usize = 1024;

/// Until when servers are believed: for each name, in Unix seconds, when the first certificate
/// expires of those that were verified and are still valid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verified(Arc<Mutex<HashMap<ServerName<'static>, u64>>>);

/// Verifies as another verifier does, looks certificates up in lists of revoked ones, and notes how long that counts.
#[derive(Debug)]
pub(super) struct NotingVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    revocations: Option<Arc<RevocationCheck>>,
    verified: Verified,
}

/// The sessions of one configuration.
#[derive(Debug)]
struct Sessions {
    sessions: ClientSessionMemoryCache,
    verified: Verified,
    /// Until when the sessions with a server may be resumed. At most as many as are verified.
    ends: Mutex<HashMap<ServerName<'static>, u64>>,
}

impl Verified {
    /// Sessions with this many servers.
    pub(crate) fn sessions(&self, servers: usize) -> Resumption {
        let sessions = ClientSessionMemoryCache::new(servers);
        Resumption::store(Arc::new(Sessions {
            sessions,
            verified: self.clone(),
            ends: Mutex::default(),
        }))
    }

    /// The server of this name is believed until then.
    fn note(&self, name: &ServerName<'static>, end: u64, now: u64) {
        let mut ends = self.0.lock();
        make_room(&mut ends, name, now);
        // Several servers may have one name: the first end counts for all, until it has passed.
        let known = ends.get(name).copied().filter(|known| now < *known);
        ends.insert(name.clone(), known.map_or(end, |known| known.min(end)));
    }

    fn until(&self, name: &ServerName<'static>) -> Option<u64> {
        self.0.lock().get(name).copied()
    }
}

/// Forgets expired entries, and if need be another one, so that there is room for a name.
fn make_room(ends: &mut HashMap<ServerName<'static>, u64>, name: &ServerName<'static>, now: u64) {
    if ends.len() < NAMES || ends.contains_key(name) {
        return;
    }
    ends.retain(|_, end| now < *end);
    if ends.len() >= NAMES
        && let Some(other) = ends.keys().next().cloned()
    {
        ends.remove(&other);
    }
}

impl NotingVerifier {
    pub(super) fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        revocations: Option<Arc<RevocationCheck>>,
        verified: Verified,
    ) -> Self {
        Self {
            verifier,
            revocations,
            verified,
        }
    }
}

impl ServerCertVerifier for NotingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        if let Some(revocations) = &self.revocations {
            revocations.check(end_entity, intermediates, now)?;
        }

        let shown = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|one| one.clone().into_owned());
        let chain = ShownChain::new(shown.collect());
        if let Some(end) = chain.next_end(now.as_secs()) {
            self.verified
                .note(&server_name.to_owned(), end, now.as_secs());
        }

        Ok(found)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.verifier.root_hint_subjects()
    }
}

impl Sessions {
    /// A session begins, or goes on: the verified certificates limit its lifetime.
    fn note(&self, name: &ServerName<'static>) {
        let now = now();
        let until = self.verified.until(name).unwrap_or_default();
        let mut ends = self.ends.lock();
        make_room(&mut ends, name, now);
        ends.entry(name.clone())
            // A resumed session brings new tickets without a new verification: they must not outlive the certificates that were verified.
            .and_modify(|end| *end = until.min(*end))
            .or_insert(until);
    }

    /// Whether a session with the server may be resumed now; if not, those that there are go.
    fn may_resume(&self, name: &ServerName<'static>) -> bool {
        let mut ends = self.ends.lock();
        if ends.get(name).is_some_and(|end| now() < *end) {
            return true;
        }

        ends.remove(name);
        self.sessions.remove_tls12_session(name);
        // A store has several tickets of TLS 1.3 for a server, each for one use (RFC 8446, C.4).
        while self.sessions.take_tls13_ticket(name).is_some() {}

        false
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.note(&name);
        self.sessions.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.may_resume(&name.to_owned())
            .then(|| self.sessions.tls12_session(name))
            .flatten()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.note(&name);
        self.sessions.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.may_resume(name)
            .then(|| self.sessions.take_tls13_ticket(name))
            .flatten()
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServerName<'static> {
        ServerName::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn the_first_end_counts_for_all_servers_of_a_name_until_it_has_passed() {
        let (verified, server) = (Verified::default(), name("a.example"));
        assert_eq!(verified.until(&server), None);
        verified.note(&server, 20, 5);
        verified.note(&server, 10, 6);
        verified.note(&server, 30, 7);
        assert_eq!(verified.until(&server), Some(10));
        verified.note(&server, 30, 10);
        assert_eq!(verified.until(&server), Some(30));
    }

    #[test]
    fn those_that_have_ended_make_room_first() {
        let verified = Verified::default();
        for number in 0..NAMES {
            verified.note(
                &name(&format!("n{number}.example")),
                if number == 7 { 10 } else { 30 },
                5,
            );
        }
        verified.note(&name("one.more.example"), 30, 20);
        assert_eq!(verified.until(&name("n7.example")), None);
        assert_eq!(verified.0.lock().len(), NAMES);
        verified.note(&name("two.more.example"), 30, 20);
        assert_eq!(verified.0.lock().len(), NAMES);
        assert_eq!(verified.until(&name("two.more.example")), Some(30));
    }
}
