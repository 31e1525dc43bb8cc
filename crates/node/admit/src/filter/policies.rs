//! The policies in Rego of a document.

use std::sync::Arc;

use hermes_config::model::Document;
use hermes_config::{Problem, child, element};
use hermes_rego::Evaluator;

use super::flow_rego::FlowRego;
use super::rego::evaluator;

/// The policies of a document.
pub struct Policies {
    /// Those of filters, each where its entry is.
    pub filters: Vec<Option<Arc<Evaluator>>>,
    /// That about flows.
    pub flows: Option<Arc<FlowRego>>,
}

/// The policies of a document; those of which something is wrong are reported.
pub fn read_policies(document: &Document, problems: &mut Vec<Problem>) -> Policies {
    let entries = document.authorize.iter().enumerate();
    let read = entries.map(|(index, config)| {
        let rego = config.rego.as_ref()?;
        let path = child(&element("authorize", index), "rego");
        evaluator(rego, &path, problems).map(Arc::new)
    });
    Policies {
        filters: read.collect(),
        flows: FlowRego::read(document, problems),
    }
}
