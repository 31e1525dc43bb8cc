//! Secrets of a node: opened before its document is read, each into a file of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use hermes_api::{Hash, Statement, parts};
use hermes_config::{Problem, Problems};
use hermes_net::replace_file;

use crate::{Membership, State};

/// Opens the secrets of a statement, if it has any.
///
/// # Errors
/// A box is not sealed to this node's key, or the disk does not take a secret.
pub(crate) fn open(
    state: &State,
    statement: &Statement,
    membership: &Membership,
) -> Result<(), Problems> {
    let Some(hash) = statement.parts.get(parts::SECRETS) else {
        return Ok(());
    };
    let unread = |error: io::Error| Problems(vec![Problem::new("", error.to_string())]);
    let text = fs::read_to_string(state.part(hash)).map_err(unread)?;
    let boxes: BTreeMap<String, String> =
        serde_json::from_str(&text).map_err(|error| unread(error.into()))?;
    let key = state.sealing_key().map_err(unread)?;
    let folder = state.secrets(hash);

    let mut problems = Vec::new();
    for (name, sealed) in boxes {
        // The name is that of a file: a controller of another version cannot lead it elsewhere.
        let is_file = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        let place = format!("{} {name}", membership.node);
        let opened = key.open(&place, &sealed).ok().filter(|_| is_file);
        let Some(secret) = opened else {
            let reason = format!("the secret `{name}` is not sealed to this node's key");
            let remedy = "apply the Secret again, with its value";
            problems.push(Problem::new("", reason).remedy(remedy));
            continue;
        };
        // Only this user can read it (0600).
        replace_file(&folder.join(&name), &secret).map_err(unread)?;
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Problems(problems)),
    }
}

/// Removes the secrets of parts that no statement names any more.
///
/// # Errors
/// The folder cannot be read, or a secret not removed.
pub(crate) fn sweep(folder: &Path, kept: &BTreeSet<Hash>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let hash = name.to_str().and_then(|name| name.parse::<Hash>().ok());
        if hash.is_some_and(|hash| !kept.contains(&hash)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use hermes_api::{Revision, SealingKey};

    use super::*;

    fn member(node: &str) -> Membership {
        Membership {
            overlay: "demo".parse().unwrap(),
            trust_domain: "demo.hermes.internal".to_owned(),
            node: node.parse().unwrap(),
            user: None,
            operator_key: None,
            statement_key: String::new(),
            controller: "https://hub:7443".to_owned(),
            controllers: Vec::new(),
            web: None,
        }
    }

    /// A statement with these boxes, whose part is kept.
    fn given(state: &State, boxes: &BTreeMap<&str, String>) -> Statement {
        let text = serde_json::to_string(boxes).unwrap();
        let hash = Hash::of(text.as_bytes());
        state.keep_part(&hash, text.as_bytes()).unwrap();
        Statement {
            overlay: "demo".parse().unwrap(),
            node: "hub".parse().unwrap(),
            revision: Revision::FIRST,
            parts: BTreeMap::from([(parts::SECRETS.to_owned(), hash)]),
            confirm_seconds: None,
        }
    }

    #[test]
    fn secrets_are_files_that_their_node_alone_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::new(folder.path());
        let public = state.sealing_key().unwrap().public();
        let once = SealingKey::of([7; 32]).unwrap();
        let sealed = public.seal("hub red.web", "a password", &once).unwrap();

        let statement = given(&state, &BTreeMap::from([("red.web", sealed.clone())]));
        open(&state, &statement, &member("hub")).unwrap();
        let secrets = state.secrets(&statement.parts[parts::SECRETS]);
        let file = secrets.join("red.web");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a password");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // A box of another place or node, and names that lead elsewhere.
        let said = open(&state, &statement, &member("yard")).unwrap_err();
        assert!(
            said.to_string()
                .contains("`red.web` is not sealed to this node's key")
        );
        for name in ["web", "../red.web", ""] {
            let sealed = public.seal(&format!("hub {name}"), "x", &once).unwrap();
            let place = if name == "web" { "other" } else { name };
            let statement = given(&state, &BTreeMap::from([(place, sealed)]));
            assert!(open(&state, &statement, &member("hub")).is_err(), "{name}");
        }

        // What no statement names is gone.
        sweep(&folder.path().join("secrets"), &BTreeSet::new()).unwrap();
        assert!(!file.exists());
    }
}
