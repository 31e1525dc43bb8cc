//! Whether a list of revoked certificates (RFC 5280 section 5) speaks against a certificate that was shown.
//!
//! A list is verified when it is read, or by webpki when it is first used for an intermediate authority: its signature covers all of it,
//! and to read 10 MiB for each handshake would stop a worker for many milliseconds. Connections do not keep lists.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, Weak};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, RootCertStore, SignatureScheme,
};
use webpki::{
    BorrowedCertRevocationList, Cert, CertRevocationList, EndEntityCert, KeyUsage,
    RevocationOptions, RevocationOptionsBuilder, VerifiedPath,
};

use super::file_error::TlsFileError;
use super::revocation_list::{
    Digest, RevocationFile, RevocationList, identity, identity_of, revocation_file,
};
use super::source::TlsSource;

/// The lists that a configuration names. Keeps them loaded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocations(Vec<Arc<RevocationFile>>);

impl Revocations {
    /// Reads the sources, each of which is DER or holds PEM blocks.
    ///
    /// # Errors
    /// The first of them that holds no list, or one that cannot be used.
    pub(super) fn read(sources: &[TlsSource<'_>]) -> Result<Self, TlsFileError> {
        let files = sources.iter().map(|source| revocation_file(*source));
        Ok(Self(files.collect::<Result<_, _>>()?))
    }

    /// Looks certificates up in these lists, as long as someone keeps them, which are verified for the authorities in `roots`. `None`
    /// where there are no lists.
    pub(super) fn check(&self, roots: Arc<RootCertStore>, usage: Usage) -> Option<RevocationCheck> {
        // Here, so that no handshake waits for it.
        let lists = self.0.iter().flat_map(|file| &file.lists);
        for list in lists {
            for root in &roots.roots {
                let _ = list.is_of(root);
            }
        }

        let check = RevocationCheck {
            files: self.0.iter().map(Arc::downgrade).collect(),
            kept: OnceLock::new(),
            roots,
            usage,
            algorithms: super::provider().signature_verification_algorithms.all,
        };
        (!self.0.is_empty()).then_some(check)
    }
}

/// The use that a certificate must allow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Usage {
    Client,
    Server,
}

/// Looks certificates up in lists. Does not keep these loaded, since a connection keeps its
/// verifier for as long as it is open.
#[derive(Debug)]
pub(super) struct RevocationCheck {
    files: Vec<Weak<RevocationFile>>,
    kept: OnceLock<Revocations>,
    roots: Arc<RootCertStore>,
    usage: Usage,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

impl RevocationCheck {
    /// Keeps the lists for as long as there is this check.
    pub(super) fn keep(&self, lists: Revocations) {
        // If this fails, the list is kept already.
        drop(self.kept.set(lists));
    }

    /// Whether a chain that was verified leads to an authority by certificates that no list revokes. Each but the authority's own
    /// must be covered by a list of its issuer (RFC 5280 section 6.3); a list that is late counts on.
    pub(super) fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let files: Vec<_> = self.files.iter().filter_map(Weak::upgrade).collect();
        // A list that is gone must not count as one that revokes nothing.
        if files.len() < self.files.len() {
            let reason = "the configuration has changed within the handshake";
            return Err(Error::General(reason.to_owned()));
        }

        let lists: Vec<_> = files.iter().flat_map(|file| &file.lists).collect();
        let is_left_open = Cell::new(false);
        let quick = |path: &VerifiedPath<'_>| match look_up(path, &lists) {
            PathStatus::Good => Ok(()),
            PathStatus::Revoked => Err(webpki::Error::CertRevoked),
            PathStatus::Nothing => Err(webpki::Error::UnknownRevocationStatus),
            PathStatus::Unverified => {
                is_left_open.set(true);
                Err(webpki::Error::UnknownRevocationStatus)
            }
        };
        let shown = Shown {
            end_entity,
            intermediates,
            now,
        };
        // Most paths need only lists with a verified signature; verifying the others takes longer.
        let known = self.verify(&shown, None, &quick);
        if known.is_ok() || !is_left_open.get() {
            return known.map_err(refused);
        }

        self.verify_lists(&shown, &lists).map_err(refused)
    }

    /// Leaves all to webpki, and notes which lists are good for which issuers.
    fn verify_lists(
        &self,
        shown: &Shown<'_>,
        lists: &[&RevocationList],
    ) -> Result<(), webpki::Error> {
        let read = lists
            .iter()
            .map(|list| BorrowedCertRevocationList::from_der(&list.der));
        let read = read.map(|list| list.map(CertRevocationList::from));
        let read: Vec<_> = read.collect::<Result<_, _>>()?;
        let all: Vec<_> = read.iter().collect();
        let options = RevocationOptionsBuilder::new(&all);
        let options = options.map_err(|_| webpki::Error::UnknownRevocationStatus)?;

        self.verify(shown, Some(options.build()), &|path| {
            note(path, lists);
            Ok(())
        })
    }

    fn verify(
        &self,
        shown: &Shown<'_>,
        revocation: Option<RevocationOptions<'_>>,
        look_at: VerifyPath<'_>,
    ) -> Result<(), webpki::Error> {
        let usage = match self.usage {
            Usage::Client => KeyUsage::client_auth(),
            Usage::Server => KeyUsage::server_auth(),
        };
        let certificate = EndEntityCert::try_from(shown.end_entity)?;
        let path = certificate.verify_for_usage(
            self.algorithms,
            &self.roots.roots,
            shown.intermediates,
            shown.now,
            usage,
            revocation,
            Some(look_at),
        );
        path.map(drop)
    }
}

/// Looks at a path that holds otherwise; another is tried if it says no.
type VerifyPath<'a> = &'a dyn Fn(&VerifiedPath<'_>) -> Result<(), webpki::Error>;

/// The certificates that were shown, and when.
struct Shown<'a> {
    end_entity: &'a CertificateDer<'a>,
    intermediates: &'a [CertificateDer<'a>],
    now: UnixTime,
}

/// The result of the lists for a path.
enum PathStatus {
    Good,
    Revoked,
    /// An issuer has no list.
    Nothing,
    /// A list was not verified for its issuer, or is about some of its certificates alone.
    Unverified,
}

/// Looks the certificates of a path up in lists that are verified, the first of each issuer.
fn look_up(path: &VerifiedPath<'_>, lists: &[&RevocationList]) -> PathStatus {
    for Issued {
        certificate,
        issuer,
    } in issued(path)
    {
        let mut of_issuer = lists
            .iter()
            .filter(|list| *list.issuer == *certificate.issuer());
        let Some(first) = of_issuer.next() else {
            return PathStatus::Nothing;
        };
        // RFC 5280, 5.2.5: a list may cover a part of the certificates only, and which part is for webpki to say.
        let is_partial = first.is_partial || of_issuer.any(|list| list.is_partial);
        if is_partial || !first.is_verified(&issuer) {
            return PathStatus::Unverified;
        }
        if first.serials.has(certificate.serial()) {
            return PathStatus::Revoked;
        }
    }
    PathStatus::Good
}

/// The first list of each issuer of a path that webpki has found to be good was signed by that.
fn note(path: &VerifiedPath<'_>, lists: &[&RevocationList]) {
    for Issued {
        certificate,
        issuer,
    } in issued(path)
    {
        let list = lists
            .iter()
            .find(|list| *list.issuer == *certificate.issuer());
        if let Some(list) = list.filter(|list| !list.is_partial) {
            list.verified(issuer);
        }
    }
}

/// A certificate of a path, and the identity of its issuer.
struct Issued<'a> {
    certificate: &'a Cert<'a>,
    issuer: Digest,
}

/// The certificates of a path, that of the peer first, without the authority's own.
fn issued<'a>(path: &'a VerifiedPath<'a>) -> Vec<Issued<'a>> {
    let own: &Cert<'_> = path.end_entity();
    let intermediates = path.intermediate_certificates();
    let certificates = std::iter::once(own).chain(path.intermediate_certificates());
    let last = identity_of(path.anchor());
    let issuers = intermediates.map(|issuer| identity(&[&issuer.der()]));

    certificates
        .zip(issuers.chain([last]))
        .map(|(certificate, issuer)| Issued {
            certificate,
            issuer,
        })
        .collect()
}

/// rustls' error for a certificate that the lists reject.
fn refused(error: webpki::Error) -> Error {
    match error {
        webpki::Error::CertRevoked => CertificateError::Revoked.into(),
        webpki::Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus.into(),
        webpki::Error::IssuerNotCrlSigner => CertRevocationListError::IssuerInvalidForCrl.into(),
        webpki::Error::InvalidCrlSignatureForPublicKey => {
            CertRevocationListError::BadSignature.into()
        }
        other => CertificateError::Other(OtherError(Arc::new(other))).into(),
    }
}

/// Verifies certificates of clients as another verifier does, and looks them up in lists.
#[derive(Debug)]
pub(super) struct ListedClients {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) check: RevocationCheck,
}

impl ClientCertVerifier for ListedClients {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .verifier
            .verify_client_cert(end_entity, intermediates, now)?;
        // After the verification: lists are looked up for chains that hold only, so that strangers cannot make us search.
        self.check.check(end_entity, intermediates, now)?;
        Ok(verified)
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
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
        ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
        RevokedCertParams, SerialNumber,
    };

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// An authority, one below it, and a certificate of that.
    struct Chain {
        folder: tempfile::TempDir,
        root: Issuer<'static, KeyPair>,
        middle: Issuer<'static, KeyPair>,
        shown: [CertificateDer<'static>; 2],
        roots: Arc<RootCertStore>,
    }

    fn authority(name: &str, serial: u64) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params
    }

    impl Chain {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let params = authority("root", 1);
            let mut roots = RootCertStore::empty();
            let own = params.self_signed(&key).unwrap().der().clone();
            roots.add(own).unwrap();
            let root = Issuer::new(params, key);

            let key = KeyPair::generate().unwrap();
            let params = authority("middle", 2);
            let below = params.signed_by(&key, &root).unwrap().der().clone();
            let middle = Issuer::new(params, key);

            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.serial_number = Some(SerialNumber::from(3_u64));
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let own = params.signed_by(&key, &middle).unwrap().der().clone();
            Self {
                folder: tempfile::tempdir().unwrap(),
                root,
                middle,
                shown: [own, below],
                roots: Arc::new(roots),
            }
        }

        fn list(&self, name: &str, issuer: &Issuer<'_, KeyPair>, revoked: &[u64]) -> PathBuf {
            let now = SystemTime::now();
            let revoked = revoked.iter().map(|serial| RevokedCertParams {
                serial_number: SerialNumber::from(*serial),
                revocation_time: (now - DAY).into(),
                reason_code: None,
                invalidity_date: None,
            });
            let list = CertificateRevocationListParams {
                this_update: (now - DAY).into(),
                next_update: (now + DAY).into(),
                crl_number: SerialNumber::from(1_u64),
                issuing_distribution_point: None,
                revoked_certs: revoked.collect(),
                key_identifier_method: KeyIdMethod::Sha256,
            };
            let file = self.folder.path().join(name);
            std::fs::write(&file, list.signed_by(issuer).unwrap().pem().unwrap()).unwrap();
            file
        }

        /// The same answer where the lists were not verified for all issuers, and where they were.
        fn judge(&self, files: &[PathBuf]) -> Result<(), Error> {
            let lists = lists_of(files);
            let check = lists.check(self.roots.clone(), Usage::Client).unwrap();
            let [own, below] = &self.shown;
            let below = std::slice::from_ref(below);
            let first = check.check(own, below, UnixTime::now());
            assert_eq!(check.check(own, below, UnixTime::now()), first);
            first
        }
    }

    fn lists_of(files: &[PathBuf]) -> Revocations {
        let sources: Vec<_> = files.iter().map(|file| TlsSource::File(file)).collect();
        Revocations::read(&sources).unwrap()
    }

    #[test]
    fn each_certificate_of_a_chain_is_looked_up_in_the_list_of_its_issuer() {
        let chain = Chain::new();
        let root = chain.list("root", &chain.root, &[9]);
        let middle = chain.list("middle", &chain.middle, &[8]);
        let both = [root.clone(), middle.clone()];
        let lists = lists_of(&both);
        assert_eq!(chain.judge(&both), Ok(()));
        let known = lists.0.iter().flat_map(|file| &file.lists);
        assert!(known.clone().count() == 2 && known.clone().all(|list| list.is_quick()));

        let revoked = Err(CertificateError::Revoked.into());
        let other = chain.list("of leaf", &chain.middle, &[7, 3]);
        assert_eq!(chain.judge(&[root.clone(), other]), revoked);
        let other = chain.list("of middle", &chain.root, &[2]);
        assert_eq!(chain.judge(&[other, middle.clone()]), revoked);
        // A number that another issuer has revoked is another certificate's.
        let other = chain.list("of another", &chain.root, &[3]);
        assert_eq!(chain.judge(&[other, middle]), Ok(()));

        let unknown = Err(CertificateError::UnknownRevocationStatus.into());
        assert_eq!(chain.judge(&[root]), unknown);
    }

    #[test]
    fn a_list_that_another_of_the_same_name_signed_proves_nothing() {
        let [chain, twin] = [Chain::new(), Chain::new()];
        let root = chain.list("root", &chain.root, &[]);
        let bad = Err(CertRevocationListError::BadSignature.into());
        let middle = chain.list("middle", &twin.middle, &[]);
        assert_eq!(chain.judge(&[root, middle.clone()]), bad);
        let root = chain.list("root", &twin.root, &[]);
        assert_eq!(chain.judge(&[root, middle]), bad);
    }

    #[test]
    fn equal_contents_are_parsed_once_and_go_with_the_last_that_keeps_them() {
        let chain = Chain::new();
        let files = [chain.list("root", &chain.root, &[5])];
        let [one, other] = [(); 2].map(|()| lists_of(&files));
        assert!(Arc::ptr_eq(&one.0[0], &other.0[0]));
        let check = one.check(chain.roots.clone(), Usage::Client).unwrap();
        let weak = Arc::downgrade(&one.0[0]);
        drop((one, other));
        assert!(weak.upgrade().is_none(), "the check does not keep it");
        let judged = check.check(&chain.shown[0], &chain.shown[1..], UnixTime::now());
        assert!(matches!(judged, Err(Error::General(_))), "{judged:?}");
    }
}
