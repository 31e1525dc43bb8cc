//! The device behind the tunnels of a hub: a TUN device of the kernel, a stack in user space, which
//! needs no privilege, or a device on another machine.

use std::convert::Infallible;
use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use hermes_ip::offload::{Coalescer, OffloadHeader};
use hermes_net::tun::{PassedDevices, TunDevice, TunSettings};
use hermes_stack::{Checksums, StackSettings};
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::device_queues::DeviceQueues;
use super::flow_stack::FlowStack;
use super::remote_device::{RemoteDevice, RemoteView};
use super::sealed_run::SealedRun;
use crate::Bounds;

/// The device behind the tunnels of a hub.
#[derive(Debug)]
pub(super) enum HubDevice {
    /// A device of the kernel.
    Kernel(KernelDevice),
    /// A stack.
    Stack(StackDevice),
    /// A device on another machine.
    Remote(Arc<RemoteDevice>),
}

/// A device of the kernel.
#[derive(Debug)]
pub(super) struct KernelDevice {
    queues: Arc<DeviceQueues>,
    device: TunDevice,
}

/// A stack for each tunnel of a proxy, or one for the tunnels that a listener has one after the other.
#[derive(Debug)]
pub(super) struct StackDevice {
    name: String,
    settings: StackDeviceSettings,
    /// The stack of a listener.
    own: Option<Arc<FlowStack>>,
    /// Addresses were assigned.
    assigned: Notify,
    /// Addresses of the configuration, or of tunnels.
    addresses: Mutex<Vec<IpNet>>,
}

/// How the packets of tunnels are ended in user space.
#[derive(Debug, Clone, Copy)]
pub struct StackDeviceSettings {
    /// Of each stack.
    pub stack: StackSettings,
    /// Bounds of one client's datagrams, until a route sets others.
    pub datagrams: Bounds,
}

impl HubDevice {
    /// Opens a device of the kernel, or takes over a passed one, with at most one queue for each of `workers`.
    pub(super) fn kernel(
        settings: &TunSettings,
        workers: usize,
        passed: &PassedDevices,
    ) -> Result<Self, String> {
        let settings = TunSettings {
            queues: settings.queues.min(workers),
            ..settings.clone()
        };
        let opened = passed.open(&settings);
        let (device, queues) = opened.map_err(|error| error.to_string())?;
        Ok(Self::Kernel(KernelDevice {
            queues: Arc::new(DeviceQueues::new(queues)),
            device,
        }))
    }

    /// A stack for each tunnel, or one for all, which has the addresses of `settings` until a tunnel assigns others.
    pub(super) fn stack(settings: &TunSettings, details: StackDeviceSettings) -> Self {
        let StackDeviceSettings { stack, datagrams } = details;
        let own = (!stack.intercepts).then(|| FlowStack::new(stack, datagrams));
        Self::Stack(StackDevice {
            name: settings.name.clone(),
            settings: details,
            own,
            assigned: Notify::new(),
            addresses: Mutex::new(settings.addresses.clone()),
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Kernel(kernel) => kernel.device.name(),
            Self::Stack(stack) => &stack.name,
            Self::Remote(remote) => remote.name(),
        }
    }

    /// Whether the device still exists.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.device.is_there(),
            Self::Stack(_) | Self::Remote(_) => true,
        }
    }

    /// Its addresses.
    pub(super) fn addresses(&self) -> Vec<IpNet> {
        match self {
            Self::Kernel(kernel) => kernel.device.addresses().unwrap_or_default(),
            Self::Stack(stack) => stack.addresses.lock().clone(),
            Self::Remote(remote) => remote.addresses(),
        }
    }

    /// Gives the device these addresses, and no others.
    pub(super) fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let set = kernel.device.set_addresses(addresses);
                set.map_err(|error| error.to_string())
            }
            Self::Stack(stack) => {
                *stack.addresses.lock() = addresses.to_vec();
                stack.assigned.notify_waiters();
                Ok(())
            }
            Self::Remote(_) => Err("the other machine cannot be told its address".to_owned()),
        }
    }

    /// Routes a prefix to the device. A stack sends to any destination, and another machine has
    /// routes of its own.
    pub(super) fn add_route(&self, net: IpNet) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let added = kernel.device.add_route(net);
                added.map_err(|error| error.to_string())
            }
            Self::Stack(_) | Self::Remote(_) => Ok(()),
        }
    }

    /// Removes the route of a prefix to the device.
    pub(super) fn remove_route(&self, net: IpNet) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let removed = kernel.device.remove_route(net);
                removed.map_err(|error| error.to_string())
            }
            Self::Stack(_) | Self::Remote(_) => Ok(()),
        }
    }

    /// The queues of a device of the kernel; a stack gives its packets to those who ask for them.
    pub(super) fn queues(&self) -> Option<&DeviceQueues> {
        match self {
            Self::Kernel(kernel) => Some(&kernel.queues),
            Self::Stack(_) | Self::Remote(_) => None,
        }
    }

    /// Handles the timers of a listener's stack. Never completes.
    pub(super) async fn keep_time(&self) -> Infallible {
        match self.own_stack().and_then(StackDevice::own) {
            Some(own) => own.keep_time().await,
            None => pending().await,
        }
    }

    /// The stack of a listener.
    pub(super) fn own_stack(&self) -> Option<&StackDevice> {
        match self {
            Self::Stack(stack) if stack.own.is_some() => Some(stack),
            _ => None,
        }
    }

    /// Ends the flows in the stack of a listener, and forgets the other machine.
    pub(super) fn close(&self) {
        match self {
            Self::Stack(StackDevice { own: Some(own), .. }) => own.close(),
            Self::Remote(remote) => remote.close(),
            Self::Kernel(_) | Self::Stack(_) => {}
        }
    }

    /// Answers a packet of the kernel, the other machine or a listener's stack, for example with an ICMP error.
    pub(super) fn answer(&self, packet: &[u8]) {
        match self {
            Self::Kernel(_) => self.write(OffloadHeader::DONE, packet),
            Self::Remote(remote) => remote.send_one(packet),
            Self::Stack(stack) => {
                if let Some(own) = stack.own() {
                    own.handle_packet(packet, Checksums::Verify);
                }
            }
        }
    }

    /// The status of the other machine.
    pub(super) fn remote_view(&self) -> Option<RemoteView> {
        match self {
            Self::Remote(remote) => remote.view(),
            Self::Kernel(_) | Self::Stack(_) => None,
        }
    }

    /// Gives the kernel a packet.
    fn write(&self, header: OffloadHeader, packet: &[u8]) {
        if let Self::Kernel(kernel) = self {
            // A device that is gone is noticed where it is read.
            let _ = kernel.queues.write(&header.to_device(), packet);
        }
    }

    /// Writes packets to the kernel or the other machine; segments of one flow may be joined.
    pub(super) fn write_all(&self, packets: &[Vec<u8>], coalescer: &mut Coalescer) {
        if let Self::Remote(remote) = self {
            remote.send_all(&mut SealedRun::default(), |send| {
                packets.iter().for_each(|packet| send(packet));
            });
            return;
        }

        let mut output = |header: OffloadHeader, packet: &[u8]| self.write(header, packet);
        for packet in packets {
            coalescer.push(packet, false, &mut output);
        }
        coalescer.flush(&mut output);
    }

    /// The stack that ends the packets of a new tunnel, if there is no other device.
    pub(super) fn stack_for_tunnel(&self) -> Option<Arc<FlowStack>> {
        let Self::Stack(device) = self else {
            return None;
        };
        let StackDeviceSettings { stack, datagrams } = device.settings;
        let own = device.own.clone();
        Some(own.unwrap_or_else(|| FlowStack::new(stack, datagrams)))
    }

    /// Whether this is a device of the kernel.
    pub(super) fn is_of_kernel(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    /// The device on another machine.
    pub(super) fn remote(&self) -> Option<&RemoteDevice> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::Kernel(_) | Self::Stack(_) => None,
        }
    }
}

impl StackDevice {
    /// The stack of a listener.
    pub(super) fn own(&self) -> Option<&Arc<FlowStack>> {
        self.own.as_ref()
    }

    /// Waits for an address of the family of `target`.
    pub(super) async fn address_for(&self, target: SocketAddr) -> IpAddr {
        loop {
            let assigned = self.assigned.notified();
            let mut assigned = pin!(assigned);
            // Registered before the addresses are read: an assignment in between wakes this task.
            assigned.as_mut().enable();
            let addresses = self.addresses.lock().clone();
            let mut addresses = addresses.iter().map(IpNet::addr);
            if let Some(own) = addresses.find(|own| own.is_ipv4() == target.is_ipv4()) {
                return own;
            }
            assigned.await;
        }
    }
}
