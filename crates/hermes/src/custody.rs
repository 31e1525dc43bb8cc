//! Custody, where the document asks for it: its key, its neighbours, and its place among the plugs.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hermes_config::model::{CustodySpool, Document, NodeCustody};
use hermes_custody::{Custody, Disk, NamedNeighbour, NodeKey, Settings};
use hermes_proxy::plug::{CUSTODY, Plugs};

use crate::failure::Failure;

/// The file of a key may be read by its owner alone.
const MODE: u32 = 0o600;

/// Bytes of what is in custody on disk, where nothing is configured.
#[doc(alias("bound", "spool.limit"))]
const SPOOL: u64 = 1024 * 1024 * 1024;

/// Adds custody to the plugs, if the document has it. To be called inside a runtime.
///
/// # Errors
/// The key can neither be read nor made, or no socket can be had.
pub fn plug(document: &Document, plugs: Plugs) -> Result<Plugs, Failure> {
    let Some(config) = &document.defaults.custody else {
        return Ok(plugs);
    };
    let key = key(&config.key_file.0)
        .map_err(|error| Failure::failed(format!("{}: {error}", config.key_file.0.display())))?;
    tracing::info!("custody: the public key of this node is {}", key.public());

    let custody = Custody::new(settings(config, key)?);
    let listens = document
        .listeners
        .values()
        .any(|listener| listener.ingress.as_deref() == Some(CUSTODY));
    if !listens {
        let socket = std::net::UdpSocket::bind("[::]:0")
            .or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))
            .map_err(|error| Failure::failed(format!("custody: {error}")))?;
        let driven = custody.clone();
        tokio::spawn(async move {
            // Without a listener no one asks this node.
            if let Err(error) = driven.drive(socket, |_, _| {}).await {
                tracing::error!(%error, "custody has failed");
            }
        });
    }

    Ok(plugs
        .handler(CUSTODY, custody.clone())
        .ingress(CUSTODY, custody))
}

fn settings(config: &NodeCustody, key: NodeKey) -> Result<Settings, Failure> {
    let neighbours = NamedNeighbour::all(config).map_err(Failure::failed)?;
    let disk = config.spool.as_ref().map(disk).transpose()?;
    Ok(Settings {
        key,
        keep_for: config.keep_for.map(|time| time.0),
        neighbours,
        disk,
    })
}

fn disk(spool: &CustodySpool) -> Result<Disk, Failure> {
    let folder = &spool.folder.0;
    let limit = spool.limit.map_or(SPOOL, |limit| limit.0);
    Disk::open(folder, limit).map_err(|error| {
        let folder = folder.display();
        Failure::failed(format!("defaults.custody.spool.folder: {folder}: {error}"))
    })
}

/// The key in a file; without one, a new one that is written there.
///
/// # Errors
/// The file cannot be read or made, or has no key.
pub fn key(file: &Path) -> std::io::Result<NodeKey> {
    let invalid = |error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    match std::fs::read_to_string(file) {
        Ok(text) => text.parse().map_err(invalid),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = NodeKey::generate().map_err(std::io::Error::other)?;
            let mut options = std::fs::OpenOptions::new();
            let mut created = options.write(true).create_new(true).mode(MODE).open(file)?;
            writeln!(created, "{}", key.to_text())?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_no_one_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("custody.key");
        let made = key(&file).unwrap();
        assert_eq!(key(&file).unwrap().public(), made.public());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        std::fs::write(&file, "no key").unwrap();
        assert!(key(&file).is_err());
    }
}
