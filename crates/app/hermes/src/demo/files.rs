//! The files that the nodes read. With `--keep` they are there to be read by people, too.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::certificates::Certificates;
use super::place::Place;
use super::says::Says;

/// Configuration by node, with names such as `@INGRESS@` where an address belongs.
const CONFIGURATIONS: [(&str, &str); 4] = [
    ("alice", include_str!("nodes/alice.yaml")),
    ("ingress", include_str!("nodes/ingress.yaml")),
    ("core", include_str!("nodes/core.yaml")),
    ("edge", include_str!("nodes/edge.yaml")),
];

/// Writes configurations, certificates and keys.
pub fn write(place: &Place, certificates: &Certificates) -> Result<(), String> {
    for (node, template) in CONFIGURATIONS {
        save(&place.configuration(node), &filled(template, place))?;
    }
    save(&place.file("ca.pem"), &certificates.authority_pem)?;
    for identity in &certificates.nodes {
        save(
            &place.file(&format!("{}.pem", identity.name)),
            &identity.certificate_pem,
        )?;
        save(
            &place.file(&format!("{}.key", identity.name)),
            &identity.key_pem,
        )?;
    }

    Ok(())
}

fn filled(template: &str, place: &Place) -> String {
    place
        .addresses()
        .iter()
        .fold(template.to_owned(), |text, (name, address)| {
            text.replace(&format!("@{name}@"), &address.to_string())
        })
}

/// Writes a file that only this user can read, as keys have to be.
pub(super) fn save(path: &Path, text: &str) -> Result<(), String> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .says(path.display())
}

/// The configuration of a node, as it was written.
pub fn configuration(place: &Place, node: &str) -> Result<hermes_config::Loaded, String> {
    hermes_config::load(&place.configuration(node), &|_| None).says(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::place::NODES;
    use std::net::SocketAddr;

    #[test]
    fn every_file_is_a_valid_document() {
        let origins = ["VIDEO", "SECURE", "DB", "ECHO"]
            .map(|name| (name, SocketAddr::from(([127, 0, 0, 1], 7))));
        let place = Place::choose(&origins).unwrap();
        write(&place, &Certificates::issue().unwrap()).unwrap();
        for node in NODES {
            let loaded = configuration(&place, node).unwrap();
            assert_eq!(loaded.document.node.as_deref(), Some(node));
            hermes_node::check(loaded).unwrap();
        }
    }

    #[test]
    fn every_address_has_its_place_in_a_file() {
        let all: String = CONFIGURATIONS.iter().map(|(_, text)| *text).collect();
        assert!(
            [
                "ALICE_WEB",
                "ALICE_DB",
                "ALICE_ECHO",
                "INGRESS",
                "CORE",
                "EDGE"
            ]
            .iter()
            .all(|name| all.contains(&format!("@{name}@")))
        );
    }
}
