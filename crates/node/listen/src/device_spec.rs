//! A device as the configuration wants it: that of a listener, or one where routes end packets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::devices::Devices;
use hermes_admit::remote_device::{self, REMOTE_MTU};
use hermes_config::model::{
    FilePath, InterceptedEcho, NamedEcho, OtherTunAddress, PacketTermination, SplitDns,
    SystemUsers, TerminateIntercept, TerminateTun, Tun, TunDetails, TunSenders, Wireguard,
};
use hermes_ip::NameLeases;
use hermes_net::tun::{MAX_QUEUES, Past, Senders, TunSettings};
use hermes_packet::Bounds;
use hermes_packet::tun::{
    NamedHosts, NodePools, OtherAssigned, StackDeviceSettings, TunClient, TunHub, TunProxy,
    TunService,
};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;
use hermes_stack::{EchoHandling, StackSettings};
use ipnet::IpNet;

use crate::device_leases;

/// The MTU of devices for which none is configured: that of Ethernet, as servers behind them expect.
pub(crate) const MTU: u16 = 1500;

/// Bounds of the datagrams of one flow that wait until its listener or route is known.
#[doc(alias = "bound")]
pub(crate) const DATAGRAMS: Bounds = Bounds {
    bytes: 16 * 1024,
    age: Duration::from_secs(5),
};

/// A device as the configuration has it. A device stays as long as its specification is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Name, MTU, addresses and routes, and the further settings of a device of the kernel.
    pub(crate) settings: TunSettings,
    pub(crate) medium: DeviceMedium,
    pub(crate) service: ServiceSpec,
}

/// The medium behind a device's tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeviceMedium {
    /// The kernel of this machine.
    Kernel,
    /// A stack of this process.
    Stack(StackSettings),
    /// Another machine, which WireGuard leads to.
    Wireguard(Box<Wireguard>),
}

/// The purpose of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceSpec {
    /// Packets that this machine sends there enter the overlay.
    Client(Box<ClientSpec>),
    /// The tunnels of routes end there.
    Proxy(Box<ProxySpec>),
}

/// The demands of a listener's device on its tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientSpec {
    /// The addresses that the configuration gives; none: the tunnel assigns them.
    addresses: Vec<IpPrefix>,
    /// The handling of other addresses that a tunnel assigns.
    other: OtherAssigned,
    super_packets: bool,
    /// Whether it has several tunnels, which split its packets by destination.
    is_split: bool,
    /// Whether it has any.
    pub(crate) keeps_tunnels: bool,
    names: Option<NamesSpec>,
}

/// The names behind some of the addresses that are led to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamesSpec {
    /// Prefixes of which each name gets an address.
    pool: Vec<IpPrefix>,
    /// The handling of their pings.
    echo: EchoHandling,
}

/// The service for tunnels that end at a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxySpec {
    pool: Vec<IpPrefix>,
    /// The routes that are advertised to clients.
    routes: Vec<IpPrefix>,
    client_to_client: bool,
    super_packets: bool,
    leases_file: Option<FilePath>,
}

impl DeviceSpec {
    /// That of a listener.
    pub(crate) fn of_listener(tun: &Tun) -> Self {
        let details = tun.details();
        let configured = details.map_or(&[][..], |details| &details.addresses);
        let mtu = mtu(details.and_then(|details| details.mtu), tun.wireguard());
        let stack = tun.is_stack().then(|| StackSettings {
            mtu: mtu as usize,
            intercepts: false,
            ..StackSettings::default()
        });
        let client = ClientSpec {
            addresses: configured
                .iter()
                .map(|net| IpPrefix::host(net.addr()))
                .collect(),
            other: other_assigned(details),
            super_packets: tun.super_packets(),
            is_split: tun.tunnels().next().is_some(),
            keeps_tunnels: tun.keeps_tunnels(),
            names: tun.dns().map(NamesSpec::of),
        };
        Self {
            settings: TunSettings {
                name: tun.name().to_owned(),
                queues: queues(details.and_then(|details| details.queues)),
                mtu,
                addresses: addresses(tun),
                routes: routes(tun),
                past: Some(details.map_or_else(Past::default, past)),
                masquerade: false,
            },
            medium: DeviceMedium::of(tun.wireguard(), stack),
            service: ServiceSpec::Client(Box::new(client)),
        }
    }

    /// That of a device where routes end packets.
    pub(crate) fn of_route(end: PacketTermination<'_>) -> Self {
        let pool: Vec<IpPrefix> = end.pool().iter().filter_map(prefix_of).collect();
        let mtu = mtu(end.mtu(), end.wireguard());
        let general = TunSettings {
            name: end.name().into_owned(),
            queues: 1,
            mtu,
            addresses: Vec::new(),
            routes: Vec::new(),
            past: None,
            masquerade: false,
        };
        let (settings, stack) = match end {
            PacketTermination::Tun(end) => (of_kernel(general, &pool, end), None),
            PacketTermination::Intercept(end) => (general, Some(intercepting(mtu, end))),
        };
        let device = match end {
            PacketTermination::Tun(end) => Some(end),
            PacketTermination::Intercept(_) => None,
        };
        let proxy = ProxySpec {
            routes: end.routes().iter().filter_map(prefix_of).collect(),
            client_to_client: device.is_some_and(|end| end.client_to_client),
            super_packets: device.is_some_and(|end| end.super_packets),
            leases_file: end.leases_file().cloned(),
            pool,
        };
        Self {
            settings,
            medium: DeviceMedium::of(end.wireguard(), stack),
            service: ServiceSpec::Proxy(Box::new(proxy)),
        }
    }

    /// Whether the kernel of this machine has it, which might route connections of this node into it.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.medium, DeviceMedium::Kernel)
    }

    /// The port of WireGuard that leads to it.
    pub(crate) fn port(&self) -> Option<SocketAddr> {
        match &self.medium {
            DeviceMedium::Wireguard(wireguard) => wireguard.listen.socket_address(),
            DeviceMedium::Kernel | DeviceMedium::Stack(_) => None,
        }
    }

    /// Opens it. `led` are prefixes that are routed to its tunnels besides its routes, `leases` the known leases of an earlier process.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn open(
        &self,
        led: &[IpPrefix],
        leases: Option<&str>,
        devices: &Devices,
    ) -> Result<Arc<TunHub>, String> {
        let service = match &self.service {
            ServiceSpec::Client(client) => TunService::Client(self.client(client, led, devices)?),
            ServiceSpec::Proxy(proxy) => {
                TunService::Proxy(Box::new(proxy.service(leases, devices)?))
            }
        };
        let settings = self.settings.clone();

        match &self.medium {
            DeviceMedium::Kernel => {
                TunHub::open(settings, service, devices.workers(), devices.passed())
            }
            DeviceMedium::Stack(stack) => {
                let stack = StackDeviceSettings {
                    stack: *stack,
                    datagrams: DATAGRAMS,
                };
                Ok(TunHub::in_user_space(settings, service, stack))
            }
            DeviceMedium::Wireguard(wireguard) => {
                let TunSettings { addresses, mtu, .. } = &settings;
                let remote = remote_device::settings(wireguard, addresses, *mtu)?;
                TunHub::on_another_machine(settings, service, devices.ports(), remote)
            }
        }
    }

    fn client(
        &self,
        client: &ClientSpec,
        led: &[IpPrefix],
        devices: &Devices,
    ) -> Result<TunClient, String> {
        let names = client.names.as_ref();
        let names = names.map(|names| names.hosts(self.settings.mtu, devices.pools()));
        let routers = self.routers(led);
        let service = TunClient::new(client.addresses.clone(), client.other, &routers)
            .super_packets(client.super_packets)
            .names(names.transpose()?);
        Ok(match client.is_split {
            true => service.sharing(client.other),
            false => service,
        })
    }

    /// The prefixes that are routed to the device: errors about packets come from there.
    fn routers(&self, led: &[IpPrefix]) -> Vec<IpPrefix> {
        let own = self.settings.routes.iter().filter_map(prefix_of);
        let mut routers: Vec<IpPrefix> = own.chain(led.iter().copied()).collect();
        if let DeviceMedium::Wireguard(_) = self.medium {
            // The other machine believes errors only from where it sends packets to, which is the network of its address as well.
            let networks = self.settings.addresses.iter().map(IpNet::trunc);
            let networks = networks.filter(|net| net.prefix_len() < net.max_prefix_len());
            routers.extend(networks.filter_map(|net| prefix_of(&net)));
        }
        routers
    }
}

impl DeviceMedium {
    fn of(wireguard: Option<&Wireguard>, stack: Option<StackSettings>) -> Self {
        match (wireguard, stack) {
            (Some(wireguard), _) => Self::Wireguard(Box::new(wireguard.clone())),
            (None, Some(stack)) => Self::Stack(stack),
            (None, None) => Self::Kernel,
        }
    }
}

impl NamesSpec {
    fn of(dns: &SplitDns) -> Self {
        Self {
            pool: dns.pool.iter().filter_map(prefix_of).collect(),
            echo: echo_of(dns),
        }
    }

    fn hosts(&self, mtu: u32, pools: &Arc<NodePools>) -> Result<Arc<NamedHosts>, String> {
        let stack = StackSettings {
            mtu: mtu as usize,
            echo: self.echo,
            ..StackSettings::default()
        };
        let hosts = NamedHosts::new(&self.pool, stack, DATAGRAMS, pools);
        hosts.map_err(|error| error.to_string())
    }
}

impl ProxySpec {
    fn service(&self, leases: Option<&str>, devices: &Devices) -> Result<TunProxy, String> {
        let service = TunProxy::new(&self.pool, &self.routes).map_err(|error| error.to_string())?;
        let service = service
            .client_to_client(self.client_to_client)
            .super_packets(self.super_packets)
            .among(devices.pools());
        if let (Some(file), Some(text)) = (&self.leases_file, leases) {
            device_leases::restore(&service, &file.0, text)?;
        }
        Ok(service)
    }
}

fn mtu(configured: Option<u16>, wireguard: Option<&Wireguard>) -> u32 {
    let default = match wireguard {
        Some(_) => REMOTE_MTU,
        None => MTU,
    };
    configured.unwrap_or(default).into()
}

fn queues(configured: Option<u16>) -> usize {
    configured.map_or(MAX_QUEUES, usize::from)
}

/// The handling of pings of names.
pub(crate) fn echo_of(dns: &SplitDns) -> EchoHandling {
    match dns.echo {
        None | Some(NamedEcho::Answer) => EchoHandling::Answer,
        Some(NamedEcho::Refuse) => EchoHandling::HandOn,
    }
}

/// The further settings of a device of the kernel where routes end.
fn of_kernel(general: TunSettings, pool: &[IpPrefix], end: &TerminateTun) -> TunSettings {
    if end.wireguard.is_some() {
        return general;
    }
    let own = |prefix: &IpPrefix| {
        let address = TunProxy::device_address(*prefix);
        IpNet::new(address, prefix.length()).ok()
    };
    TunSettings {
        addresses: pool.iter().filter_map(own).collect(),
        masquerade: end.nat,
        queues: queues(end.queues),
        ..general
    }
}

/// The stack that ends packets in this process.
fn intercepting(mtu: u32, end: &TerminateIntercept) -> StackSettings {
    StackSettings {
        mtu: mtu as usize,
        echo: match end.echo.unwrap_or(InterceptedEcho::Answer) {
            InterceptedEcho::Answer => EchoHandling::Answer,
            InterceptedEcho::Forward => EchoHandling::Ask,
            InterceptedEcho::Refuse => EchoHandling::HandOn,
        },
        ..StackSettings::default()
    }
}

/// Its addresses. Without a tunnel that could assign some, it has the first of each prefix of names, and answers come to these alone.
fn addresses(tun: &Tun) -> Vec<IpNet> {
    let details = tun.details();
    let given = details.map_or_else(Vec::new, |details| details.addresses.clone());
    if !given.is_empty() || tun.keeps_tunnels() {
        return given;
    }
    let pool = tun.dns().into_iter().flat_map(|dns| &dns.pool);
    let own = pool.filter_map(prefix_of).map(NameLeases::device_address);
    own.map(IpNet::from).collect()
}

/// The prefixes that are routed to it: to its tunnels, and to its names.
fn routes(tun: &Tun) -> Vec<IpNet> {
    let routes = tun
        .details()
        .into_iter()
        .flat_map(|details| &details.routes);
    let names = tun.dns().into_iter().flat_map(|dns| &dns.pool);
    routes.chain(names).copied().collect()
}

/// The prefixes that bypass it.
fn past(details: &TunDetails) -> Past {
    let senders = |senders: &Option<TunSenders>| senders.as_ref().map(in_kernel);
    Past {
        nets: details.exclude.clone(),
        only: senders(&details.only).unwrap_or_default(),
        except: senders(&details.except).unwrap_or_default(),
    }
}

/// Senders as the kernel knows them.
pub(crate) fn in_kernel(senders: &TunSenders) -> Senders {
    let users = senders.users.iter().map(|users| match users {
        SystemUsers::Name(name) => hermes_net::tun::SystemUsers::named(name),
        SystemUsers::Numbers(first, last) => hermes_net::tun::SystemUsers::Numbers(*first, *last),
    });
    Senders {
        users: users.collect(),
        cgroups: senders
            .cgroups
            .iter()
            .map(|group| group.0.clone())
            .collect(),
    }
}

/// The handling of other addresses that the tunnel of a listener's device assigns.
fn other_assigned(details: Option<&TunDetails>) -> OtherAssigned {
    let is_configured = details.is_some_and(|details| !details.addresses.is_empty());
    match details.and_then(|details| details.other_address) {
        Some(OtherTunAddress::Nat) => OtherAssigned::Translate,
        Some(OtherTunAddress::Refuse) => OtherAssigned::Refuse,
        Some(OtherTunAddress::Adopt) => OtherAssigned::Adopt,
        None if is_configured => OtherAssigned::Refuse,
        None => OtherAssigned::Adopt,
    }
}
