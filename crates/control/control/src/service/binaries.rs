//! Programs that nodes may run, by their hashes.
//!
//! A node says itself which program it runs. The list keeps out programs that are old or were changed by mistake; a node that lies is not
//! found out, so that it is no attestation.

use hermes_api::{Hash, Name};

use crate::resources::Tree;

/// The programs of a node: those of its resource, or of the whole overlay. Empty: any.
pub(super) fn allowed<'t>(tree: &'t Tree, node: Option<&Name>) -> &'t [Hash] {
    let own = node.and_then(|node| tree.node(node));
    let own = own.map(|node| &*node.binaries);
    let of_all = tree.overlay().map(|(_, overlay)| &*overlay.binaries);
    let own = own.filter(|own| !own.is_empty());
    own.or(of_all).unwrap_or_default()
}

/// # Errors
/// The node runs another program.
pub(super) fn judge(tree: &Tree, node: &Name, binary: Option<Hash>) -> Result<(), String> {
    let allowed = allowed(tree, Some(node));
    if allowed.is_empty() || binary.is_some_and(|binary| allowed.contains(&binary)) {
        return Ok(());
    }
    let said = binary.map_or_else(|| "unknown".to_owned(), |binary| binary.to_string());
    Err(format!(
        "the program of {node} has the SHA-256 {said}, which is not in the `binaries` of its resource or of the overlay"
    ))
}
