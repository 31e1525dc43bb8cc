//! A later proxy's account of a failure, for the record of this node: its own clients may never
//! see the answer.

use hermes_admit::next::Next;
use hermes_admit::note;
use hermes_admit::routed::Routed;
use hermes_http::ResponseHead;
use hermes_http::h1::client::Receiver;
use hermes_proto::proxy_status::{self, ReportedFailure};

use super::verdict;

/// Why a later proxy refused an exchange, noted for its record; `None` where the response is an origin's, or none of failure. An origin
/// may write what it likes: only the proxies of the route `to` are asked.
pub(crate) fn of(routed: &Routed, next: &Next, head: &ResponseHead) -> Option<ReportedFailure> {
    let failed = verdict::is_failure(head.status);
    if !failed || next.receiver() != Receiver::Proxy {
        return None;
    }
    let told = proxy_status::first_error(&head.fields)?;
    routed.exchange.refused_by(&told.node, told.refusal);
    if let Some(id) = told.refusal {
        note::later_refusal(routed, id, &told);
    }
    Some(told)
}
