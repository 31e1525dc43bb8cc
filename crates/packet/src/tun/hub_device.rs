//! What is behind the tunnels of a hub: a TUN device of the kernel, or a stack in user space, which needs no right to make one.

use std::sync::Arc;

use hermes_ip::offload::OffloadHeader;
use hermes_net::tun::{TunDevice, TunSettings};
use hermes_stack::StackSettings;
use ipnet::IpNet;
use parking_lot::Mutex;

use super::device_queues::DeviceQueues;
use super::flow_stack::FlowStack;
use crate::Bounds;

/// What is behind the tunnels of a hub.
#[derive(Debug)]
pub(super) enum HubDevice {
    /// A device of the kernel.
    Kernel(KernelDevice),
    /// A stack.
    Stack(StackDevice),
}

/// A device of the kernel.
#[derive(Debug)]
pub(super) struct KernelDevice {
    device: TunDevice,
    queues: Arc<DeviceQueues>,
}

/// A stack for each tunnel of a proxy.
#[derive(Debug)]
pub(super) struct StackDevice {
    name: String,
    settings: StackDeviceSettings,
    /// The addresses that tunnels have assigned.
    addresses: Mutex<Vec<IpNet>>,
}

/// How the packets of tunnels are ended in user space.
#[derive(Debug, Clone, Copy)]
pub struct StackDeviceSettings {
    /// Of each stack.
    pub stack: StackSettings,
    /// What is kept of the datagrams of one client, until a route says otherwise.
    pub datagrams: Bounds,
}

/// Where the packets that come out of a tunnel go.
#[derive(Debug, Clone)]
pub(super) enum Outlet {
    /// To the kernel.
    Kernel(Arc<DeviceQueues>),
    /// To a stack.
    Stack(Arc<FlowStack>),
}

impl HubDevice {
    /// A device of the kernel, of whose queues each is read by one of so many workers.
    pub(super) fn kernel(settings: &TunSettings, workers: usize) -> Result<Self, String> {
        let settings = TunSettings {
            queues: settings.queues.min(workers),
            ..settings.clone()
        };
        let (device, queues) = TunDevice::open(&settings).map_err(|error| error.to_string())?;
        Ok(Self::Kernel(KernelDevice {
            device,
            queues: Arc::new(DeviceQueues::new(queues)),
        }))
    }

    /// No device, but stacks.
    pub(super) fn stack(name: &str, settings: StackDeviceSettings) -> Self {
        Self::Stack(StackDevice {
            name: name.to_owned(),
            settings,
            addresses: Mutex::default(),
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Kernel(kernel) => kernel.device.name(),
            Self::Stack(stack) => &stack.name,
        }
    }

    /// Whether it is still there.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.device.is_there(),
            Self::Stack(_) => true,
        }
    }

    /// Its addresses.
    pub(super) fn addresses(&self) -> Vec<IpNet> {
        match self {
            Self::Kernel(kernel) => kernel.device.addresses().unwrap_or_default(),
            Self::Stack(stack) => stack.addresses.lock().clone(),
        }
    }

    /// Gives it these addresses, and no others.
    pub(super) fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let set = kernel.device.set_addresses(addresses);
                set.map_err(|error| error.to_string())
            }
            Self::Stack(stack) => {
                *stack.addresses.lock() = addresses.to_vec();
                Ok(())
            }
        }
    }

    /// Has the kernel lead a prefix here. A stack sends wherever it is asked to.
    pub(super) fn add_route(&self, net: IpNet) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let added = kernel.device.add_route(net);
                added.map_err(|error| error.to_string())
            }
            Self::Stack(_) => Ok(()),
        }
    }

    /// Has the kernel lead a prefix here no more.
    pub(super) fn remove_route(&self, net: IpNet) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let removed = kernel.device.remove_route(net);
                removed.map_err(|error| error.to_string())
            }
            Self::Stack(_) => Ok(()),
        }
    }

    /// The queues of a device of the kernel; a stack gives its packets to those who ask for them.
    pub(super) fn queues(&self) -> Option<&DeviceQueues> {
        match self {
            Self::Kernel(kernel) => Some(&kernel.queues),
            Self::Stack(_) => None,
        }
    }

    /// Tells the kernel something about a packet that it sent.
    pub(super) fn answer(&self, packet: &[u8]) {
        if let Self::Kernel(kernel) = self {
            // A device that is gone is noticed where it is read.
            let _ = kernel
                .queues
                .write(&OffloadHeader::DONE.to_device(), packet);
        }
    }

    /// Where the packets of a new tunnel go.
    pub(super) fn outlet(&self) -> Outlet {
        match self {
            Self::Kernel(kernel) => Outlet::Kernel(kernel.queues.clone()),
            Self::Stack(stack) => {
                let StackDeviceSettings { stack, datagrams } = stack.settings;
                Outlet::Stack(FlowStack::new(stack, datagrams))
            }
        }
    }
}

impl Outlet {
    /// The stack, if it is one.
    pub(super) fn stack(&self) -> Option<&Arc<FlowStack>> {
        match self {
            Self::Kernel(_) => None,
            Self::Stack(stack) => Some(stack),
        }
    }

    /// Tells who sent a packet into a tunnel something about it.
    pub(super) fn answer(&self, packet: &[u8]) {
        match self {
            Self::Kernel(queues) => {
                // A device that is gone is noticed where it is read.
                let _ = queues.write(&OffloadHeader::DONE.to_device(), packet);
            }
            Self::Stack(stack) => stack.handle_packet(packet),
        }
    }
}
