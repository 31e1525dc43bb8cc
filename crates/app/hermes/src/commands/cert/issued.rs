//! Certificates that are in the folder already.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use hermes_net::tls::certificate_names;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::day;
use super::request::Request;

/// A certificate in a file.
pub(super) struct Issued {
    /// Its DNS names, addresses and URIs, in their order.
    pub(super) names: Vec<String>,
    /// Unix time of its beginning and of its end.
    from: u64,
    pub(super) until: u64,
}

impl Issued {
    /// The certificate of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate.
    pub(super) fn read(file: &Path) -> Result<Option<Self>, String> {
        if !file.exists() {
            return Ok(None);
        }

        let no_certificate = || format!("{}: holds no certificate", file.display());
        let der = CertificateDer::from_pem_file(file).map_err(|_| no_certificate())?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| no_certificate())?;
        let validity = certificate.validity();
        let seconds = |timestamp: i64| u64::try_from(timestamp).unwrap_or(0);
        let mut names = alternative_names(&certificate);
        if names.is_empty() {
            names.extend(certificate_names(&der).common_name);
        }

        Ok(Some(Self {
            names,
            from: seconds(validity.not_before.timestamp()),
            until: seconds(validity.not_after.timestamp()),
        }))
    }

    /// Whether the last third of its time has begun.
    pub(super) fn is_due(&self, now: u64) -> bool {
        let third = self.until.saturating_sub(self.from) / 3;
        now >= self.until.saturating_sub(third)
    }

    /// Checks that it is the requested certificate.
    ///
    /// # Errors
    /// It has other names.
    pub(super) fn check(&self, request: &Request, file: &Path) -> Result<(), String> {
        if self.names == request.names {
            return Ok(());
        }
        Err(format!(
            "{} is for {} until {}: remove it to have one for {}",
            file.display(),
            self.names.join(", "),
            day(self.until),
            request.names.join(", ")
        ))
    }
}

/// The certificates of the folder that have a key beside them, as they would be asked for anew.
///
/// # Errors
/// The folder or one of its certificates cannot be read.
pub(super) fn requests(folder: &Path) -> Result<Vec<Request>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut requests = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_certificate = path.extension().is_some_and(|ending| ending == "pem");
        let name = path.file_stem().and_then(|name| name.to_str());
        let Some(file) = name.filter(|name| is_certificate && *name != "ca") else {
            continue;
        };
        if !path.with_extension("key").exists() {
            continue;
        }

        if let Some(known) = Issued::read(&path)? {
            requests.push(Request {
                file: file.to_owned(),
                names: known.names,
            });
        }
    }

    requests.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(requests)
}

fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension
        .iter()
        .flat_map(|found| &found.value.general_names);
    names.filter_map(text).collect()
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
