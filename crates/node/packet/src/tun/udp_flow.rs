//! A pair of UDP ports in a stack.

use std::sync::Arc;
use std::time::Duration;

use hermes_http::RefusalReason;
use hermes_stack::FlowId;

use super::flow_refusal;
use super::flow_stack::FlowStack;
use crate::session::SessionFlow;

/// A pair of UDP ports in a stack, which is forgotten with this.
pub(super) struct UdpFlow {
    stack: Arc<FlowStack>,
    flow: FlowId,
}

impl UdpFlow {
    pub(super) fn new(stack: Arc<FlowStack>, flow: FlowId) -> Self {
        Self { stack, flow }
    }
}

impl SessionFlow for UdpFlow {
    fn outlast(&self, silence: Duration) {
        self.stack
            .with(|stack, _| stack.outlast(self.flow, silence));
    }

    fn refuse(&self, reason: &RefusalReason) {
        self.stack
            .refuse(self.flow, flow_refusal::of_reason(reason));
    }

    fn refuse_larger(&self, payload: usize) {
        self.stack
            .with(|stack, now| stack.refuse_larger(self.flow, payload, now));
    }

    fn send(&self, data: &[u8], segment: Option<usize>) {
        let length = segment.unwrap_or(data.len()).max(1);
        self.stack.with(|stack, now| {
            if data.is_empty() {
                stack.send_datagram(self.flow, data, now);
            }
            for datagram in data.chunks(length) {
                stack.send_datagram(self.flow, datagram, now);
            }
        });
    }
}

impl Drop for UdpFlow {
    fn drop(&mut self) {
        self.stack.release(self.flow);
    }
}
