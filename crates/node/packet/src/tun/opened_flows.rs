//! Connections and datagrams that are opened here, from the addresses that the tunnel of a listener has.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::memory::OwnerAccount;
use tokio::time::timeout;

use super::flow_error::FlowError;
use super::hub::TunHub;
use super::hub_device::StackDevice;
use super::tcp_flow::TcpFlow;
use crate::{ChargedBounds, Session};

impl TunHub {
    /// Opens a connection, which is charged to this account; waits for an address and for its target, each for `wait` at most.
    ///
    /// # Errors
    /// [`FlowError`].
    pub async fn open_tcp(
        &self,
        target: SocketAddr,
        wait: Duration,
        account: &OwnerAccount,
    ) -> Result<TcpFlow, FlowError> {
        let device = self.stack_device()?;
        let stack = device.own().ok_or(FlowError::NoStack)?;
        let from = timeout(wait, device.address_for(target)).await;
        let from = from.map_err(|_| FlowError::NoAddress(target))?;
        let flow = stack.open_tcp(from, target, account)?;
        let opened = timeout(wait, flow.opened()).await;
        opened.map_err(|_| FlowError::Timeout)??;
        Ok(flow)
    }

    /// Opens a pair of UDP ports; waits for an address for `wait` at most. Datagrams sent on the
    /// session go to the target, and those received come from there, within `bounds`.
    ///
    /// # Errors
    /// [`FlowError`].
    pub async fn open_udp(
        &self,
        target: SocketAddr,
        wait: Duration,
        bounds: &ChargedBounds,
    ) -> Result<Arc<Session>, FlowError> {
        let device = self.stack_device()?;
        let stack = device.own().ok_or(FlowError::NoStack)?;
        let from = timeout(wait, device.address_for(target)).await;
        let from = from.map_err(|_| FlowError::NoAddress(target))?;
        stack.open_udp(from, target, bounds)
    }

    fn stack_device(&self) -> Result<&StackDevice, FlowError> {
        let device = self.device.own_stack().filter(|_| !self.is_closed());
        device.ok_or(FlowError::NoStack)
    }
}
