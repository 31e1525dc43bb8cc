//! Faults in a handshake, in words and as a label for metrics.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The text about a certificate of version 1.
pub(super) const VERSION_1: &str =
    "X.509 version 1, which has no extensions and so no names that can be checked";

/// The text about a certificate as `openssl req -x509` makes it by default, with the way to make
/// one for a server or a client.
const OF_AUTHORITY: &str = "it is the certificate of an authority (CA:TRUE), not of a server or client: make it with \
     `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`, or have it issued by that authority";

/// The text about an issuer's certificate that is not one of an authority.
const NO_AUTHORITY: &str = "its issuer's certificate is not that of an authority: make that with basicConstraints=critical,CA:TRUE";

/// Why a handshake came to nothing, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The client showed no certificate, and one is required.
    NoCertificate,
    /// No authority that is believed issued the certificate.
    UnknownAuthority,
    /// The certificate is not valid any more.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// A list says that it was revoked.
    Revoked,
    /// Anything else about the certificate.
    BadCertificate,
    /// The peer does not believe our certificate, or ended the handshake otherwise.
    RefusedByPeer,
    /// The first bytes are not TLS.
    NotTls,
    /// The two have no version, cipher suite or protocol in common, or the peer broke the rules.
    Protocol,
    /// The handshake took too long.
    Timeout,
    /// The connection ended.
    Closed,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::NoCertificate,
        Self::UnknownAuthority,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::BadCertificate,
        Self::RefusedByPeer,
        Self::NotTls,
        Self::Protocol,
        Self::Timeout,
        Self::Closed,
    ];

    /// The label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::UnknownAuthority => "unknown_authority",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
            Self::BadCertificate => "bad_certificate",
            Self::RefusedByPeer => "refused_by_peer",
            Self::NotTls => "not_tls",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
        }
    }

    /// The fault, for a person.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NoCertificate => "the client showed no certificate, and one is required",
            Self::UnknownAuthority => "the certificate's issuer is not trusted here",
            Self::Expired => "the certificate has expired",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::Revoked => "the certificate was revoked",
            Self::BadCertificate => "the certificate cannot be used",
            Self::RefusedByPeer => {
                "the peer ended the handshake, probably because it does not accept our certificate"
            }
            Self::NotTls => "this is not TLS: clear text, or another protocol",
            Self::Protocol => "no version or cipher suite in common, or a broken handshake",
            Self::Timeout => "the handshake took too long",
            Self::Closed => "the connection ended within the handshake",
        }
    }

    /// The fault behind an error of rustls.
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(problem) => Self::of_certificate(problem),
            Error::InvalidCertRevocationList(_) | Error::UnsupportedNameType => {
                Self::BadCertificate
            }
            Error::AlertReceived(_) => Self::RefusedByPeer,
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::NotTls,
            _ => Self::Protocol,
        }
    }

    fn of_certificate(problem: &CertificateError) -> Self {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::Revoked => Self::Revoked,
            // One of the same name, but with another key, is another authority.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::UnknownAuthority
            }
            _ => Self::BadCertificate,
        }
    }

    /// The fault behind an alert that we sent (RFC 8446 section 6.2), if nothing else is left of
    /// the error.
    pub(crate) fn of_alert(number: u8) -> Self {
        match AlertDescription::from(number) {
            AlertDescription::CertificateRequired => Self::NoCertificate,
            // The second speaks of a signature: nearly always that of an authority of the same name, but with another key.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => Self::UnknownAuthority,
            AlertDescription::CertificateExpired => Self::Expired,
            AlertDescription::CertificateRevoked => Self::Revoked,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => Self::BadCertificate,
            _ => Self::Protocol,
        }
    }
}

/// Whether an alert ends a handshake (RFC 8446 section 6.2), and would end the next one with the same two ends: it is about
/// certificates, names, versions or suites. The peer that sends it has processed nothing.
#[must_use]
pub fn alert_ends_handshake(number: u8) -> bool {
    matches!(number, 40..=46 | 48 | 49 | 51 | 70 | 71 | 86 | 109..=113 | 115 | 116 | 120)
}

/// A remedy for the client that was sent this alert; empty if none is known.
#[must_use]
pub fn remedy_of_alert(number: u8) -> &'static str {
    match AlertDescription::from(number) {
        AlertDescription::CertificateRequired => {
            "it wants a certificate of this node: `tls.cert_file` and `key_file`"
        }
        AlertDescription::UnknownCA
        | AlertDescription::DecryptError
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            "it does not accept `tls.cert_file`; the issuer belongs in its `client_ca_file`"
        }
        AlertDescription::CertificateExpired => "`tls.cert_file` has expired for it: renew it",
        AlertDescription::CertificateRevoked => {
            "`tls.cert_file` was revoked: have another one issued"
        }
        AlertDescription::UnrecognisedName => "it does not serve this name: set `tls.server_name`",
        AlertDescription::NoApplicationProtocol => {
            "it does not support the HTTP versions in `http` of the upstream"
        }
        _ => "",
    }
}

/// A remedy for a client that does not accept the server's certificate; empty if none is known.
#[must_use]
pub fn remedy_of_certificate(fault: Fault, detail: &str) -> &'static str {
    match fault {
        Fault::UnknownAuthority => "its authority belongs in `tls.ca_file`",
        Fault::Expired => "it has to be renewed there, unless the clock here is wrong",
        Fault::NotYetValid => "it has to be valid now: look at the clock",
        Fault::Revoked => "it is in `crl_file`: the server needs another one",
        _ if detail.contains("not valid for name") => "it has to name `tls.server_name`",
        _ => "",
    }
}

/// An error of TLS over QUIC, of which the text of rustls alone is left, in words.
pub(crate) fn of_text(text: &str) -> String {
    let ours = |name| text.contains(name);
    if [
        "UnsupportedCertVersion",
        "CaUsedAsEndEntity",
        "EndEntityUsedAsCa",
    ]
    .into_iter()
    .any(ours)
    {
        return of_webpki(text);
    }
    if ours("UnknownRevocationStatus") {
        return of_certificate(&CertificateError::UnknownRevocationStatus);
    }
    text.to_owned()
}

/// An error of rustls in words.
pub(super) fn of(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => of_certificate(problem),
        other => other.to_string(),
    }
}

/// The fault of a certificate, in words.
pub(super) fn of_certificate(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownRevocationStatus => {
            "whether it was revoked is unknown: no list in crl_file is of its issuer".to_owned()
        }
        CertificateError::Other(other) => of_webpki(&format!("{other:?}")),
        known if Fault::of_certificate(known) != Fault::BadCertificate => {
            Fault::of_certificate(known).words().to_owned()
        }
        other => other.to_string(),
    }
}

/// webpki's reason against a certificate, in words. Its type is not ours to name.
fn of_webpki(said: &str) -> String {
    if said.contains("UnsupportedCertVersion") {
        format!("it is {VERSION_1}")
    } else if said.contains("CaUsedAsEndEntity") {
        OF_AUTHORITY.to_owned()
    } else if said.contains("EndEntityUsedAsCa") {
        NO_AUTHORITY.to_owned()
    } else {
        format!("it cannot be used ({said})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unique() {
        let words: std::collections::BTreeSet<_> =
            Fault::ALL.into_iter().map(Fault::word).collect();
        assert_eq!(words.len(), Fault::ALL.len());
    }

    #[test]
    fn clear_text_is_told_from_a_broken_handshake() {
        assert_eq!(
            Fault::of(&Error::InvalidMessage(InvalidMessage::InvalidContentType)),
            Fault::NotTls
        );
        assert_eq!(
            Fault::of(&Error::InvalidMessage(InvalidMessage::InvalidCcs)),
            Fault::Protocol
        );
    }
}
