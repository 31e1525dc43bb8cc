//! Checks of the flow log.

use hermes_config::model::Document;

use super::report::{Check, Report};

pub(super) const CHECKS: &[Check] = &[numbers];

fn numbers(document: &Document, report: &mut Report) {
    let Some(flows) = &document.log.flows else {
        return;
    };
    if flows.one_in == Some(0) {
        report.add(
            "log.flows.one_in",
            "one flow in 0 is not a share",
            "write 1 for all flows, or remove `flows`",
        );
    }
    if flows.silent_for.is_some_and(|silence| silence.0.is_zero()) {
        report.add(
            "log.flows.silent_for",
            "every flow is silent for that long between two packets",
            "write a time such as 60s",
        );
    }
}
