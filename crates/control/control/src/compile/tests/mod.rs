//! Documents of whole overlays.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod access;
mod change;
mod golden;
mod handled;
mod mistakes;
mod overlay;
mod peerings;
mod reads;
mod secrets;
mod slices;
mod tenants;
mod walk;

use std::path::Path;

use super::{Compiled, Compiler, Recipient};
use crate::resources::{Source, Tree, read};

pub(super) const DOMAIN: &str = "demo.hermes.internal";

/// A tree of resources in `overlay.yaml`.
pub(super) fn tree(text: &str) -> Tree {
    let source = Source {
        name: Path::new("overlay.yaml"),
        text,
    };
    read(&[source]).unwrap_or_else(|findings| panic!("{findings}"))
}

/// Every document of a tree, each of which a node would take.
pub(super) fn documents(tree: &Tree) -> Vec<(Recipient, Compiled)> {
    let compiler = Compiler::new(tree, DOMAIN).unwrap_or_else(|findings| panic!("{findings}"));
    let recipients = compiler.recipients().into_iter();
    recipients
        .map(|recipient| {
            let compiled = compiler.document(&recipient).unwrap();
            let proof = compiled.prove(tree);
            proof.unwrap_or_else(|findings| {
                panic!("{recipient:?}: {findings}\n{}", compiled.document)
            });
            (recipient, compiled)
        })
        .collect()
}
