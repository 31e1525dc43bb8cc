//! The folder of a node after power cuts, mistakes and other users.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use hermes_api::{Hash, Revision, SigningKey, Statement, parts};
use hermes_config::DocumentForm;

use crate::{Membership, State};

const DOCUMENT: &str = "version: 1\n";

fn membership(node: &str, key: &SigningKey) -> Membership {
    Membership {
        overlay: "demo".parse().unwrap(),
        trust_domain: "demo.hermes.internal".to_owned(),
        node: node.parse().unwrap(),
        user: None,
        statement_key: key.verifying().to_text(),
        operator_key: None,
        controller: "https://hub:7443".to_owned(),
        controllers: Vec::new(),
        web: None,
    }
}

fn key() -> SigningKey {
    SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
}

/// A statement for `hub` with this document, which is kept.
fn statement(state: &State, document: &str) -> Statement {
    let hash = Hash::of(document.as_bytes());
    state.keep_part(&hash, document.as_bytes()).unwrap();
    Statement {
        overlay: "demo".parse().unwrap(),
        node: "hub".parse().unwrap(),
        revision: Revision::FIRST,
        parts: BTreeMap::from([(parts::DOCUMENT.to_owned(), hash)]),
        confirm_seconds: None,
    }
}

fn followed(state: &State, key: &SigningKey) -> Statement {
    let statement = statement(state, DOCUMENT);
    let signed = statement.sign(key);
    state.follow(&signed, &statement).unwrap();
    statement
}

#[test]
fn a_part_that_was_torn_is_not_here() {
    let folder = tempfile::tempdir().unwrap();
    let state = State::new(folder.path());
    let key = key();
    let statement = followed(&state, &key);
    let hash = statement.parts[parts::DOCUMENT];
    let hub = membership("hub", &key);
    assert!(state.has_part(&hash));
    assert!(state.current(&hub).unwrap().is_some());

    for torn in ["", "version: 2\n"] {
        fs::write(state.part(&hash), torn).unwrap();
        assert!(!state.has_part(&hash));
        let said = state.current(&hub).unwrap_err().to_string();
        assert!(said.contains("another hash"), "{said}");
    }
    fs::remove_file(state.part(&hash)).unwrap();
    assert!(state.current(&hub).is_err());
}

#[test]
fn the_statement_of_another_node_overlay_or_key_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let state = State::new(folder.path());
    let key = key();
    followed(&state, &key);
    assert!(state.current(&membership("hub", &key)).is_ok());

    let said = state.current(&membership("yard", &key)).unwrap_err();
    assert!(said.to_string().contains("it is for hub of demo"), "{said}");
    let of_other = Membership {
        overlay: "other".parse().unwrap(),
        ..membership("hub", &key)
    };
    assert!(state.current(&of_other).is_err());
    assert!(state.current(&membership("hub", &self::key())).is_err());
}

#[test]
fn a_folder_that_others_can_write_to_or_whose_keys_they_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = State::new(folder.path());
    state.key().unwrap();
    assert!(state.membership().unwrap().is_none());
    let chmod = |name: &str, mode: u32| {
        fs::set_permissions(folder.path().join(name), Permissions::from_mode(mode)).unwrap();
    };

    for (name, bad, good) in [("", 0o770, 0o755), ("node.key", 0o640, 0o600)] {
        chmod(name, bad);
        let said = state.membership().unwrap_err().to_string();
        assert!(said.contains("chmod"), "{said}");
        chmod(name, good);
        assert!(state.membership().unwrap().is_none());
    }
}

#[test]
fn a_document_of_a_controller_names_no_file_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let state = State::new(folder.path());
    let hub = membership("hub", &key());
    let form = DocumentForm::default();
    let secret = folder.path().join("outside.yaml");
    fs::write(&secret, "node: a secret of the machine\nnode: twice\n").unwrap();
    let refused = |state: &State, document: &str| {
        let statement = statement(state, document);
        state.document(&statement, &hub, &form).unwrap_err()
    };

    let said = refused(&state, "version: 1\nlog: { file: /tmp/x }\n");
    let [problem] = &said.0[..] else {
        panic!("{said}");
    };
    assert_eq!(problem.path, "log.file");
    assert!(
        problem
            .remedy
            .as_ref()
            .unwrap()
            .contains("--allow-files /tmp")
    );

    let include = format!("version: 1\ninclude: ['{}']\n", secret.display());
    let said = refused(&state, &include).to_string();
    assert!(said.contains("includes no files of this machine"), "{said}");
    assert!(!said.contains("a secret of the machine"), "{said}");

    // Its own place, and those that the user of the machine allows.
    let own = statement(&state, "version: 1\nlog: { file: '${HERMES_DATA}/log' }\n");
    state.document(&own, &hub, &form).unwrap();
    let mode = fs::metadata(folder.path().join("data"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let allowing = state.clone().allow_files(vec!["/tmp".into()]);
    let outside = statement(&state, "version: 1\nlog: { file: /tmp/x }\n");
    allowing.document(&outside, &hub, &form).unwrap();
}
