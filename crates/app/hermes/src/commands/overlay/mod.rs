//! Overlays: their controllers, and the nodes that follow them.

pub mod apply;
pub mod ask;
pub mod changes;
pub mod compare;
pub mod controller;
pub mod explain;
pub mod join;
pub mod look;
mod member;
pub mod members;
pub mod operator;
pub mod overview;
pub mod peering;
pub mod way;

use std::path::{Path, PathBuf};

use hermes_api::Name;
use hermes_control::service::About;

use crate::failure::Failure;

use self::ask::ControllerSocket;
use crate::admin;

/// The socket of a controller, in its folder.
const SOCKET: &str = "controller.sock";

/// The properties of a controller.
///
/// # Errors
/// It cannot be reached.
async fn about(controller: &ControllerSocket) -> Result<About, Failure> {
    admin::typed(controller.get("/about").await?)
}

/// The folder that was named, or this one in the folder for state.
fn folder(named: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    let found = match named {
        Some(folder) => Some(folder.to_owned()),
        None => hermes_node::state_folder().map(|folder| folder.join(name)),
    };
    let found = found.ok_or_else(|| {
        Failure::failed("there is no folder for state").remedy("name one with --state FOLDER")
    })?;
    // Documents name files in it, and are read wherever the process stands.
    std::path::absolute(&found)
        .map_err(|error| Failure::failed(format!("{}: {error}", found.display())))
}

/// This machine's name as a node's: its first label, in lower case, without what names may not have.
fn machine_name() -> Option<Name> {
    let host = rustix::system::uname();
    let host = host.nodename().to_str().ok()?.to_ascii_lowercase();
    let label = host.split('.').next().unwrap_or_default();
    let plain: String = label
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .take(48)
        .collect();
    plain.trim_matches('-').parse().ok()
}
