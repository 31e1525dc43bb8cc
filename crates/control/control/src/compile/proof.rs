//! Whether a node would take a document: its form, and its meaning.

use std::path::Path;

use hermes_api::canonical;
use hermes_config::{Problem, parse};
use hermes_rules::{lint, warn};
use serde_json::Value as Json;

/// Variables that an agent fills in, each with an example.
pub const VARIABLES: [(&str, &str); 9] = [
    ("HERMES_NODE", "laptop"),
    ("HERMES_USER", "alice"),
    ("HERMES_IDENTITY", "/var/lib/hermes/identity"),
    ("HERMES_DATA", "/var/lib/hermes/data"),
    ("HERMES_AUTHORITIES", "/var/lib/hermes/authorities.pem"),
    ("HERMES_REVOKED", "/var/lib/hermes/revoked.pem"),
    ("HERMES_SECRETS", "/var/lib/hermes/secrets"),
    ("HERMES_CONTROLLER", "controller.example.org"),
    ("HERMES_WEB", "127.0.0.1:8080"),
];

/// The judgement about a document.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// Mistakes for which a node would refuse it.
    pub(super) mistakes: Vec<Problem>,
    /// Parts that have no effect, or a bad one.
    pub(super) warnings: Vec<Problem>,
}

/// Judges a document as a node would.
pub(super) fn prove(document: &Json) -> Proof {
    let variable = |name: &str| {
        let known = VARIABLES.iter().find(|(known, _)| *known == name);
        known.map(|(_, example)| (*example).to_owned())
    };
    let text = String::from_utf8_lossy(&canonical(document)).into_owned();
    let document = match parse(Path::new("document.json"), &text, &variable) {
        Ok(loaded) => loaded.document,
        Err(problems) => {
            return Proof {
                mistakes: problems.0,
                ..Proof::default()
            };
        }
    };

    let warnings = warn(&document).into_iter();
    // A new overlay has no policy yet, which is no mistake: nothing is permitted until someone is.
    let warnings = warnings.filter(|warning| !warning.reason.contains("permits nothing"));
    Proof {
        mistakes: lint(&document),
        warnings: warnings.collect(),
    }
}
