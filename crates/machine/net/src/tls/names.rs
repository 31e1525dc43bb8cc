//! The names in a certificate (RFC 5280 sections 4.1.2.6 and 4.2.1.6).

use std::fmt::Write;

use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::peer::CertificateNames;

/// Reads the names of a certificate given as DER. One that cannot be read has no names, only its digest.
#[must_use]
pub fn certificate_names(der: &[u8]) -> CertificateNames {
    let mut names = CertificateNames {
        sha256: sha256(der),
        ..CertificateNames::default()
    };

    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return names;
    };
    names.common_name = certificate
        .subject()
        .iter_common_name()
        .next()
        .and_then(|name| name.as_str().ok())
        .map(str::to_owned);

    names.not_after = u64::try_from(certificate.validity().not_after.timestamp()).ok();
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    for name in alternatives
        .iter()
        .flat_map(|extension| &extension.value.general_names)
    {
        match name {
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            GeneralName::RFC822Name(email) => names.emails.push((*email).to_owned()),
            GeneralName::DNSName(dns) => names.dns.push((*dns).to_owned()),
            _ => {}
        }
    }

    names
}

fn sha256(data: &[u8]) -> String {
    let digest = digest(&SHA256, data);
    digest
        .as_ref()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_has_a_digest_and_no_names() {
        let names = certificate_names(b"abc");
        assert_eq!(names.primary(), None);
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(names.sha256, expected);
    }
}
