//! The node's own credentials that are not those of a listener or upstream.

use hermes_acme::Certificates;
use hermes_config::model::{Acme, Document};
use hermes_config::{Problem, child};
use http::HeaderValue;

/// The node's own credentials.
pub struct OwnCredentials {
    /// `Proxy-Authorization` for the next proxy.
    pub token: Option<HeaderValue>,
    /// The certificates that it obtains itself.
    pub certificates: Certificates,
}

impl OwnCredentials {
    /// Reads them; the certificates of `previous` go on.
    pub fn read(document: &Document, previous: Option<&Self>, problems: &mut Vec<Problem>) -> Self {
        let before = previous.map(|previous| &previous.certificates);
        Self {
            token: token(document, problems),
            certificates: Certificates::read(before, wanted(document), problems),
        }
    }
}

/// The certificates that listeners have the node obtain, with the paths of their keys.
fn wanted(document: &Document) -> impl Iterator<Item = (String, &Acme)> {
    document.listeners.iter().filter_map(|(name, listener)| {
        let acme = listener.tls()?.acme.as_deref()?;
        let path = child(&child("listeners", name), "tls");
        Some((child(&path, "acme"), acme))
    })
}

fn token(document: &Document, problems: &mut Vec<Problem>) -> Option<HeaderValue> {
    let token = document.identity.as_ref()?.token_file.as_ref()?;
    let path = child("identity", "token_file");
    let secret = match token.secret() {
        Ok(secret) => secret,
        Err(reason) => {
            problems.push(Problem::new(path, reason));
            return None;
        }
    };

    match HeaderValue::from_str(&format!("Bearer {}", secret.trim())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            Some(value)
        }
        Err(_) => {
            let reason = "the token holds characters that no field may hold";
            problems.push(Problem::new(path, reason));
            None
        }
    }
}
