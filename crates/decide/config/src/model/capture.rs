//! Captured traffic: programs that know no proxy, whose connections and datagrams become exchanges for their original destinations.

use std::sync::LazyLock;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{FilePath, OneOrMany, SystemUsers};
use super::{HostCapture, SplitDns};

/// The addresses of names where no others are configured: prefixes that are no one's on the Internet (RFC 2544, RFC 4193). They are seen by
/// captured programs alone, so that they meet no others.
const NAMES: [&str; 2] = ["198.18.0.0/16", "fd68:6572:6d65:73::/64"];

/// The answers about names where nothing is configured.
static NAMES_BY_DEFAULT: LazyLock<SplitDns> = LazyLock::new(|| SplitDns {
    pool: OneOrMany(
        NAMES
            .iter()
            .filter_map(|net| net.parse::<IpNet>().ok())
            .collect(),
    ),
    names: OneOrMany::default(),
    others: None,
    resolvers: OneOrMany::default(),
    echo: None,
});

/// Whose traffic a `capture` listener takes: one of `exec`, `network` and `host`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Programs that are started by `hermes exec --capture`, which asks at the Unix socket of this path. No one needs a right for it:
    /// each program has a network of its own, which leads here.
    #[serde(default)]
    pub exec: Option<FilePath>,
    /// The network namespace of this path, such as `/run/netns/NAME` or `/proc/PID/ns/net`: that of a pod, a container or `ip netns`. The
    /// node enters it to make a device there, for which it needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    #[serde(default)]
    pub network: Option<FilePath>,
    /// Users, control groups and interfaces of this machine, whose packets the kernel leads here. It takes CAP_NET_ADMIN.
    #[serde(default)]
    pub host: Option<Box<HostCapture>>,
    /// The users of this machine whose programs `exec` takes, beside root and the user of the node, each by name, by number, or from one
    /// number to another, such as `1000-1999`. Default: no others.
    #[serde(default)]
    pub users: OneOrMany<SystemUsers>,
    /// `true`: the user of an exchange is the one who started the program, by the name of the account on this machine. Default: the `user`
    /// of the listener.
    #[serde(default)]
    pub login: bool,
    /// The answers to questions for names. Default: the names of routes have addresses of 198.18.0.0/16 and fd68:6572:6d65:73::/64, and
    /// others are asked of the resolvers of this machine.
    #[serde(default)]
    pub dns: Option<SplitDns>,
    /// The MTU of the device, in bytes. Default: 1500.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
}

impl Capture {
    /// The answers to questions for names.
    pub fn dns(&self) -> &SplitDns {
        self.dns.as_ref().unwrap_or(&NAMES_BY_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_addresses_of_both_families_by_default() {
        let capture = Capture::default();
        let [v4, v6] = &capture.dns().pool[..] else {
            panic!("{:?}", capture.dns())
        };
        assert!(v4.addr().is_ipv4() && v6.addr().is_ipv6());
    }
}
