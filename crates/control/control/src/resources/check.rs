//! Whether the resources of a tree fit together.

mod entry;
mod names;
mod nodes;
mod overlay;
mod peerings;
mod references;
mod report;
mod rules;
mod secrets;
mod slices;
mod tenants;

pub(crate) use peerings::is_below;
use report::Report;

use super::{Findings, Tree};

/// Everything that is wrong with a tree as a whole, in the order of files and lines.
///
/// # Errors
/// References without a resource, nodes that no other can reach, names that mean two things, and the like.
pub fn check(tree: &Tree) -> Result<(), Findings> {
    let mut report = Report::new(tree);
    tenants::tenants(&mut report);
    tenants::nodes(&mut report);
    references::services(&mut report);
    overlay::overlays(&mut report);
    nodes::nodes(&mut report);
    nodes::links(&mut report);
    names::names(&mut report);
    tenants::names(&mut report);
    names::routes(&mut report);
    rules::groups(&mut report);
    rules::policies(&mut report);
    peerings::peerings(&mut report);
    peerings::foreign_names(&mut report);
    slices::slices(&mut report);
    secrets::secrets(&mut report);
    entry::entries(&mut report);
    report.end()
}
