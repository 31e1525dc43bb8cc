//! Lists of revoked certificates (RFC 5280 section 5). The process parses each content once, however many listeners and upstreams
//! name it, and frees it with the last configuration that does. A list is kept as it came, beside an index of the serial numbers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, SubjectPublicKeyInfoDer, TrustAnchor};
use webpki::{BorrowedCertRevocationList, CertRevocationList, RawPublicKeyEntity};
use x509_parser::asn1_rs::Any;
use x509_parser::prelude::FromDer;

use super::file_error::{TlsFileError, TlsPart};
use super::files::bad_pem;
use super::source::TlsSource;
use super::validity::{Span, of_list};

/// The beginning of a PEM block.
const PEM: &[u8] = b"-----BEGIN ";

/// SHA-256 of a file's content.
pub(super) type Digest = [u8; SHA256_OUTPUT_LEN];

/// Contents in use. As many as the configurations in force name.
static KNOWN: Mutex<BTreeMap<Digest, Weak<RevocationFile>>> = Mutex::new(BTreeMap::new());

/// Issuers for which one list was verified.
#[doc(alias = "bound")]
const ISSUERS: usize = 64;

/// The lists of one file.
#[derive(Debug)]
pub(super) struct RevocationFile {
    pub(super) lists: Vec<RevocationList>,
    /// The issuer and time of each list.
    pub(super) spans: Vec<Span>,
}

/// One list.
#[derive(Debug)]
pub(super) struct RevocationList {
    pub(super) der: CertificateRevocationListDer<'static>,
    /// A name in DER, without its tag.
    pub(super) issuer: Vec<u8>,
    /// The list is about some certificates of its issuer alone: webpki tells which.
    pub(super) is_partial: bool,
    pub(super) serials: Serials,
    /// Issuers by which it is signed, as [`identity`] has them.
    verified: Mutex<BTreeSet<Digest>>,
}

impl RevocationList {
    fn parse(der: CertificateRevocationListDer<'static>) -> Result<Self, webpki::Error> {
        let (serials, issuer, is_partial) = {
            let list = BorrowedCertRevocationList::from_der(&der)?;
            let serials = Serials::of(&list)?;
            let list = CertRevocationList::from(list);
            let is_partial = list.issuing_distribution_point().is_some();
            (serials, list.issuer().to_vec(), is_partial)
        };

        Ok(Self {
            der,
            issuer,
            is_partial,
            serials,
            verified: Mutex::default(),
        })
    }

    /// Whether the list is known to be signed by the issuer of this identity.
    pub(super) fn is_verified(&self, issuer: &Digest) -> bool {
        self.verified.lock().contains(issuer)
    }

    /// Whether its signature was verified.
    #[cfg(test)]
    pub(super) fn is_quick(&self) -> bool {
        !self.verified.lock().is_empty()
    }

    /// Its signature by this issuer is good.
    pub(super) fn verified(&self, issuer: Digest) {
        let mut verified = self.verified.lock();
        if verified.len() < ISSUERS {
            verified.insert(issuer);
        }
    }

    /// Whether an authority of this name and key has signed the list. Reads all of it, once for each.
    pub(super) fn is_of(&self, authority: &TrustAnchor<'_>) -> bool {
        if *self.issuer != *authority.subject {
            return false;
        }
        let identity = identity_of(authority);
        let is_signed = self.is_verified(&identity) || self.is_signed_by(authority).is_some();
        if is_signed {
            self.verified(identity);
        }
        is_signed
    }

    fn is_signed_by(&self, authority: &TrustAnchor<'_>) -> Option<()> {
        let (_, list) = Any::from_der(&self.der).ok()?;
        let (after, _) = Any::from_der(list.data).ok()?;
        let signed = list.data.get(..list.data.len() - after.len())?;
        let (rest, algorithm) = Any::from_der(after).ok()?;
        let (_, signature) = Any::from_der(rest).ok()?;
        // Of bits, all of which are used (X.690 section 8.6).
        let signature = signature.data.strip_prefix(&[0])?;
        let key = SubjectPublicKeyInfoDer::from(sequence(&authority.subject_public_key_info)?);
        let key = RawPublicKeyEntity::try_from(&key).ok()?;

        let algorithms = super::provider().signature_verification_algorithms.all;
        let mut fitting = algorithms
            .iter()
            .filter(|known| *known.signature_alg_id() == *algorithm.data);
        fitting.find_map(|known| key.verify_signature(*known, signed, signature).ok())
    }
}

/// A sequence of this content in DER (X.690 section 8.1.3), of less than 64 KiB.
fn sequence(content: &[u8]) -> Option<Vec<u8>> {
    let [high, low] = u16::try_from(content.len()).ok()?.to_be_bytes();
    let head = match (high, low) {
        (0, 0..0x80) => vec![0x30, low],
        (0, _) => vec![0x30, 0x81, low],
        _ => vec![0x30, 0x82, high, low],
    };
    Some([&head, content].concat())
}

/// The serial numbers of revoked certificates, one behind the other in their order.
#[derive(Debug, Default)]
pub(super) struct Serials {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Serials {
    fn of(list: &BorrowedCertRevocationList<'_>) -> Result<Self, webpki::Error> {
        let mut sorted = Vec::new();
        for revoked in list {
            sorted.push(revoked?.serial_number);
        }
        sorted.sort_unstable();
        sorted.dedup();

        let mut serials = Self::default();
        serials.ends.reserve_exact(sorted.len());
        serials
            .bytes
            .reserve_exact(sorted.iter().map(|one| one.len()).sum());
        for serial in sorted {
            serials.bytes.extend_from_slice(serial);
            // They are part of a file of some MiB.
            let end = u32::try_from(serials.bytes.len());
            serials.ends.push(end.map_err(|_| webpki::Error::BadDer)?);
        }
        Ok(serials)
    }

    fn at(&self, index: usize) -> &[u8] {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let begin = index.checked_sub(1).map_or(0, end);
        self.bytes.get(begin..end(index)).unwrap_or_default()
    }

    pub(super) fn has(&self, serial: &[u8]) -> bool {
        let mut low = 0;
        let mut high = self.ends.len();
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle).cmp(serial) {
                Ordering::Equal => return true,
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        false
    }
}

/// Stands for an issuer: its certificate, or the name and key of an authority.
pub(super) fn identity(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut identity = Digest::default();
    identity.copy_from_slice(context.finish().as_ref());
    identity
}

/// The identity of an authority.
pub(super) fn identity_of(authority: &TrustAnchor<'_>) -> Digest {
    identity(&[&authority.subject, &authority.subject_public_key_info])
}

/// The lists of a file that can be used, at least one.
pub(super) fn revocation_file(source: TlsSource<'_>) -> Result<Arc<RevocationFile>, TlsFileError> {
    let content = source.read(TlsPart::RevocationLists)?;
    let mut key = Digest::default();
    key.copy_from_slice(digest(&SHA256, &content).as_ref());

    // Locked while it parses, so that those who read the same content at the same time share it.
    let mut known = KNOWN.lock();
    if let Some(parsed) = known.get(&key).and_then(Weak::upgrade) {
        return Ok(parsed);
    }

    let parsed = Arc::new(parse(source, content.into_owned())?);
    known.retain(|_, other| other.strong_count() > 0);
    known.insert(key, Arc::downgrade(&parsed));
    Ok(parsed)
}

fn parse(source: TlsSource<'_>, content: Vec<u8>) -> Result<RevocationFile, TlsFileError> {
    let encoded = encoded(source, content)?;
    let mut parsed = RevocationFile {
        lists: Vec::with_capacity(encoded.len()),
        spans: Vec::with_capacity(encoded.len()),
    };

    let mut refused = Vec::new();
    for (index, list) in encoded.into_iter().enumerate() {
        match usable(source, list) {
            Ok((span, list)) => {
                parsed.spans.push(span);
                parsed.lists.push(list);
            }
            Err(error) => refused.push((index, error)),
        }
    }

    // Nothing opens by that: a certificate of which no list speaks is refused. Certificates of other authorities go on.
    match refused.into_iter().next() {
        Some((_, error)) if parsed.lists.is_empty() => Err(error),
        Some((index, error)) => {
            let reason = error.reason;
            tracing::warn!(file = %source, "list {} is passed over: {reason}; the others count", index + 1);
            Ok(parsed)
        }
        None => Ok(parsed),
    }
}

/// One list, with its issuer and time.
fn usable(
    source: TlsSource<'_>,
    list: CertificateRevocationListDer<'static>,
) -> Result<(Span, RevocationList), TlsFileError> {
    let span = of_list(&list).ok_or_else(|| none(source))?;
    let list = RevocationList::parse(list).map_err(|error| {
        let reason = format!("not a usable list of revoked certificates: {error:?}");
        source
            .wrong(TlsPart::RevocationLists, reason)
            .remedy("RFC 5280, section 5.2: it needs a CRL number and an authority key identifier")
    })?;

    Ok((span, list))
}

/// The lists in DER.
fn encoded(
    source: TlsSource<'_>,
    content: Vec<u8>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsFileError> {
    let is_pem = content.windows(PEM.len()).any(|bytes| bytes == PEM);
    if !is_pem {
        return Ok(vec![CertificateRevocationListDer::from(content)]);
    }

    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&content).collect();
    let found = found.map_err(|error| source.wrong(TlsPart::RevocationLists, bad_pem(&error)))?;
    match found.is_empty() {
        true => Err(none(source)),
        false => Ok(found),
    }
}

fn none(source: TlsSource<'_>) -> TlsFileError {
    source
        .wrong(
            TlsPart::RevocationLists,
            "no list of revoked certificates in it",
        )
        .remedy("it must be DER, or hold PEM blocks that start with -----BEGIN X509 CRL-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serials(sorted: &[&[u8]]) -> Serials {
        let mut serials = Serials::default();
        for serial in sorted {
            serials.bytes.extend_from_slice(serial);
            serials.ends.push(serials.bytes.len() as u32);
        }
        serials
    }

    #[test]
    fn serial_numbers_are_found_as_a_whole() {
        let known: [&[u8]; 5] = [&[1], &[1, 2], &[2], &[0x7f, 1, 2, 3], &[0xff]];
        let index = serials(&known);
        assert!(known.iter().all(|serial| index.has(serial)));
        for other in [&[][..], &[0], &[1, 2, 3], &[2, 2], &[0x7f], &[0xff, 0]] {
            assert!(!index.has(other), "{other:?}");
        }
        assert!(!Serials::default().has(&[1]));
    }

    #[test]
    fn sequences_have_the_shortest_length() {
        for (length, head) in [
            (5, &[0x30, 5][..]),
            (0x80, &[0x30, 0x81, 0x80]),
            (0x1234, &[0x30, 0x82, 0x12, 0x34]),
        ] {
            let made = sequence(&vec![7; length]).unwrap();
            assert_eq!(
                (&made[..head.len()], made.len()),
                (head, head.len() + length)
            );
        }
        assert_eq!(sequence(&[0; 0x10000]), None);
    }
}
