//! Custody, where the document asks for it: its key, its neighbours, and its place among the plugs.

use hermes_config::model::{CARRIER, CustodySpool, DataSource, Document, Listener, NodeCustody};
use hermes_custody::{Custody, Disk, NamedNeighbour, PrivateKey, Settings};
use hermes_plug::Plugs;

use crate::failure::Failure;
use crate::key_file;

/// Bytes in custody on disk by default.
#[doc(alias("bound", "spool.limit"))]
const SPOOL: u64 = 1024 * 1024 * 1024;

/// Adds custody to the plugs, if the document has it. To be called inside a runtime.
///
/// # Errors
/// The key can neither be read nor made, or no socket can be had.
pub fn plug(document: &Document, plugs: Plugs) -> Result<Plugs, Failure> {
    let Some(config) = &document.defaults.custody else {
        return Ok(hermes_custody::register(plugs, None, None));
    };
    let key = key(&config.key_file).map_err(Failure::failed)?;
    tracing::info!("custody: the public key of this node is {}", key.public());

    let custody = Custody::new(settings(config, key)?);
    let listens = document
        .listeners
        .values()
        .filter_map(Listener::ingress)
        .any(|ingress| ingress.name == CARRIER);
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

    Ok(hermes_custody::register(plugs, Some(custody), Some(config)))
}

/// The key of the node: one that stands in the document is not made.
fn key(source: &DataSource) -> Result<PrivateKey, String> {
    match source {
        DataSource::File(file) => key_file::read_or_make(&file.0),
        DataSource::Inline(_) => source
            .secret()?
            .parse()
            .map_err(|error| format!("defaults.custody.key_file: {source}: {error}")),
    }
}

/// Checks the key of the node, if it is there: `hermes run` makes one that is not.
///
/// # Errors
/// In words, when it cannot be used.
pub fn check_key(source: &DataSource) -> Result<(), String> {
    match source {
        DataSource::File(file) if !file.0.exists() => Ok(()),
        DataSource::File(file) => key_file::read(&file.0).map(drop),
        DataSource::Inline(_) => key(source).map(drop),
    }
}

fn settings(config: &NodeCustody, key: PrivateKey) -> Result<Settings, Failure> {
    let neighbours =
        NamedNeighbour::all(config).map_err(|problem| Failure::failed(problem.to_string()))?;
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
