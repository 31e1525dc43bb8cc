//! Remedies for missing features: lines to run or to write, for this process and this reason.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hermes_net::machine::{Feature, Missing, MissingReason};
use hermes_node::trial::PathReport;

/// Files that say that this is a container.
const CONTAINER_FILES: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// The groups that may have sockets of ICMP, of this network namespace.
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";

/// The smallest MTU on which IPv6 works (RFC 8200, section 5), and with it QUIC in QUIC for one hop less.
const SMALL_MTU: usize = 1280;

/// Who asks, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// The number of the user.
    user: u32,
    /// The number of its group.
    group: u32,
    /// This program.
    program: PathBuf,
    /// Whether this is a container that says so.
    container: bool,
}

impl Situation {
    /// That of this process.
    pub fn of_this_process() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("hermes"));
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            program,
            container: CONTAINER_FILES.iter().any(|file| Path::new(file).exists()),
        }
    }

    /// How to get the right to do it.
    fn capability(&self, names: &str) -> Vec<String> {
        let lower = names.to_lowercase();
        let options = names.split(',').map(|name| {
            let short = name.trim_start_matches("CAP_");
            format!(" --cap-add {short}")
        });
        let options: String = options.collect();
        let container = format!("in a container: docker run{options} ..");

        // Root without the right: something took it away.
        if self.user == 0 {
            return vec![container];
        }
        let unit = names.replace(',', " ");
        let mut lines = vec![
            format!("sudo setcap {lower}+ep {}", self.program.display()),
            format!(
                "as a service: systemctl edit hermes@NAME, and under [Service]: AmbientCapabilities={unit} and CapabilityBoundingSet={unit}"
            ),
        ];
        if self.container {
            lines.push(container);
        }
        lines
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.container {
            ", in a container"
        } else {
            ""
        };
        match self.user {
            0 => write!(out, "root{place}"),
            user => write!(out, "user {user}{place}"),
        }
    }
}

/// The remedies of a feature: one is enough, the likeliest comes first.
pub fn lines(feature: Feature, missing: &Missing, situation: &Situation) -> Vec<String> {
    let error = match &missing.reason {
        MissingReason::Refused(error) => error,
        MissingReason::Small { wanted, .. } => return buffer(*wanted),
        MissingReason::Partly(_) => return partly(feature),
    };

    match (feature, error.kind()) {
        (Feature::Masquerade, kind) => masquerade(kind, situation),
        (_, io::ErrorKind::Unsupported) => vec!["run the node on Linux".to_owned()],
        (Feature::Tun | Feature::TunOffload, _) => tun(error, situation),
        (Feature::NetlinkChange, io::ErrorKind::PermissionDenied) => {
            situation.capability("CAP_NET_ADMIN")
        }
        (Feature::Cgroups, io::ErrorKind::PermissionDenied) => {
            situation.capability("CAP_BPF,CAP_NET_ADMIN")
        }
        (Feature::Cgroups, _) => vec![
            "a kernel with CONFIG_CGROUP_BPF".to_owned(),
            "or name `users` in place of `cgroups`".to_owned(),
        ],
        (Feature::Mark | Feature::Tproxy, io::ErrorKind::PermissionDenied) => {
            situation.capability("CAP_NET_ADMIN,CAP_NET_RAW")
        }
        (Feature::Echo, io::ErrorKind::PermissionDenied) => echo(situation),
        (Feature::Netlink | Feature::NetlinkChange, _) => vec![
            "as a service: under [Service] RestrictAddressFamilies= must have AF_NETLINK; in a container: let seccomp allow socket(AF_NETLINK)".to_owned(),
        ],
        (Feature::Ktls, io::ErrorKind::NotFound) => module("tls", "CONFIG_TLS"),
        (Feature::Gso, _) => vec!["Linux 4.18 or newer".to_owned()],
        (Feature::Gro, _) => vec!["Linux 5.0 or newer".to_owned()],
        (Feature::Echo, _) => vec![
            "as a service: under [Service] RestrictAddressFamilies= must have AF_INET and AF_INET6".to_owned(),
            "or `echo: answer`, which says nothing of the host".to_owned(),
        ],
        (Feature::Udp | Feature::Http3, _) => vec![
            "ip link set lo up; as a service: under [Service] RestrictAddressFamilies= must have AF_INET".to_owned(),
        ],
        (Feature::Ktls, _) => vec![
            "ip link set lo up; a container's seccomp profile may forbid TCP_ULP".to_owned(),
        ],
        (Feature::Mark | Feature::Tproxy, _) => {
            vec!["a seccomp profile or security module forbids the option".to_owned()]
        }
    }
}

/// The groups that may have sockets of ICMP, those of this process among them.
fn echo(situation: &Situation) -> Vec<String> {
    let groups = fs::read_to_string(PING_GROUPS).unwrap_or_default();
    let range = widened(&groups, situation.group);
    let mut lines = vec![
        format!("sysctl -w net.ipv4.ping_group_range=\"{range}\""),
        format!(
            "to stay: echo 'net.ipv4.ping_group_range = {range}' > /etc/sysctl.d/60-hermes.conf"
        ),
    ];
    if situation.container {
        lines.push(format!(
            "in a container: docker run --sysctl net.ipv4.ping_group_range=\"{range}\" .."
        ));
    }
    lines
}

/// A range of groups with one more; none has its last before its first.
fn widened(range: &str, group: u32) -> String {
    let mut ends = range.split_whitespace().map(str::parse::<u32>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => {
            format!("{} {}", first.min(group), last.max(group))
        }
        _ => format!("{group} {group}"),
    }
}

fn masquerade(kind: io::ErrorKind, situation: &Situation) -> Vec<String> {
    if kind == io::ErrorKind::PermissionDenied {
        return situation.capability("CAP_NET_ADMIN");
    }
    let mut lines = module(
        "nft_masq",
        "CONFIG_NF_TABLES_INET, CONFIG_NFT_NAT, CONFIG_NFT_CT and CONFIG_NFT_MASQ",
    );
    lines.push("Linux 5.12 or newer".to_owned());
    lines.push(
        "as a service: under [Service] RestrictAddressFamilies= must have AF_NETLINK; in a container: let seccomp allow socket(AF_NETLINK)".to_owned(),
    );
    lines.push(
        "or leave `nat` out, and route `pool` to this machine on the networks behind it".to_owned(),
    );
    lines
}

fn tun(error: &io::Error, situation: &Situation) -> Vec<String> {
    // No file, or no driver behind it.
    let no_device = [
        rustix::io::Errno::NODEV.raw_os_error(),
        rustix::io::Errno::NXIO.raw_os_error(),
    ];
    let lacks_driver = error
        .raw_os_error()
        .is_some_and(|raw| no_device.contains(&raw));

    if lacks_driver || error.kind() == io::ErrorKind::NotFound {
        let mut lines = module("tun", "CONFIG_TUN");
        lines.push("mkdir -p /dev/net && mknod -m 666 /dev/net/tun c 10 200".to_owned());
        lines.push(
            "in a container: docker run --device /dev/net/tun --cap-add NET_ADMIN ..".to_owned(),
        );
        lines.push(
            "as a service: under [Service] PrivateDevices=no and DeviceAllow=/dev/net/tun rw"
                .to_owned(),
        );
        return lines;
    }
    if error.kind() == io::ErrorKind::PermissionDenied {
        let mut lines = situation.capability("CAP_NET_ADMIN");
        lines.push(
            "if /dev/net/tun itself is closed: chmod 666 /dev/net/tun, or as a service: PrivateDevices=no and DeviceAllow=/dev/net/tun rw".to_owned(),
        );
        return lines;
    }
    vec!["an interface, or too many of them, is in the way: ip link".to_owned()]
}

fn module(name: &str, option: &str) -> Vec<String> {
    vec![
        format!("modprobe {name} && echo {name} > /etc/modules-load.d/{name}.conf"),
        format!("if there is no such module, a kernel with {option}"),
    ]
}

fn buffer(wanted: usize) -> Vec<String> {
    vec![
        format!("sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}"),
        format!(
            "to stay: printf 'net.core.rmem_max={wanted}\\nnet.core.wmem_max={wanted}\\n' > /etc/sysctl.d/60-hermes.conf"
        ),
    ]
}

fn partly(feature: Feature) -> Vec<String> {
    match feature {
        Feature::TunOffload => vec!["Linux 6.2 or newer; without it only UDP is slower".to_owned()],
        _ => vec!["a newer kernel".to_owned()],
    }
}

/// The remedies of a path.
pub fn path_lines(report: &PathReport) -> Vec<String> {
    let mut lines = Vec::new();
    match &report.quic {
        Ok(answer) if answer.mtu <= SMALL_MTU => lines.push(format!(
            "packets above {} bytes are lost: tunnels of IPv6 and of QUIC in QUIC do not fit; raise the MTU on the way, or use `http: 2` there",
            answer.mtu
        )),
        Ok(answer) if report.route_mtu.is_some_and(|mtu| mtu.min(LONGEST_TRIED) > answer.mtu) => {
            lines.push(format!(
                "the path carries less than its first link: ip route replace {}/{} .. mtu {}, or leave it to the node, which searches",
                report.address.ip(),
                if report.address.is_ipv4() { 32 } else { 128 },
                answer.mtu
            ));
        }
        Ok(_) => {}
        Err(_) if report.tcp.is_ok() => lines.push(format!(
            "if the server has HTTP/3: let UDP port {} through on the way, there and back; else `http: 2` for this upstream",
            report.address.port()
        )),
        Err(_) => lines.push(format!(
            "nothing answers at {}: is the server up, and may this machine reach it?",
            report.address
        )),
    }
    lines
}

/// Longer packets were not tried.
const LONGEST_TRIED: usize = 9000;

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(user: u32, container: bool) -> Situation {
        Situation {
            user,
            group: 1000,
            program: PathBuf::from("/usr/bin/hermes"),
            container,
        }
    }

    fn refused(error: io::Error) -> Missing {
        Missing {
            step: "a step",
            reason: MissingReason::Refused(error),
        }
    }

    #[test]
    fn a_user_is_told_how_to_get_the_right() {
        let missing = refused(io::ErrorKind::PermissionDenied.into());
        let said = lines(Feature::Tun, &missing, &situation(1000, false));
        assert_eq!(said[0], "sudo setcap cap_net_admin+ep /usr/bin/hermes");
        assert!(said[1].contains("AmbientCapabilities=CAP_NET_ADMIN and"));
        let said = lines(Feature::Mark, &missing, &situation(1000, true));
        assert_eq!(
            said[0],
            "sudo setcap cap_net_admin,cap_net_raw+ep /usr/bin/hermes"
        );
        assert_eq!(
            said[2],
            "in a container: docker run --cap-add NET_ADMIN --cap-add NET_RAW .."
        );
    }

    #[test]
    fn root_without_the_right_is_told_what_took_it() {
        let missing = refused(io::ErrorKind::PermissionDenied.into());
        let said = lines(Feature::NetlinkChange, &missing, &situation(0, true));
        assert_eq!(said, ["in a container: docker run --cap-add NET_ADMIN .."]);
    }

    #[test]
    fn groups_that_may_ping_keep_that() {
        assert_eq!(widened("1\t0\n", 1000), "1000 1000");
        assert_eq!(widened("0\t0\n", 1000), "0 1000");
        assert_eq!(widened("2000\t3000\n", 1000), "1000 3000");
        assert_eq!(widened("", 7), "7 7");
    }

    #[test]
    fn a_missing_module_is_named() {
        let missing = refused(io::ErrorKind::NotFound.into());
        let all = situation(0, false);
        let said = lines(Feature::Tun, &missing, &all);
        assert!(said[0].starts_with("modprobe tun"), "{said:?}");
        let said = lines(Feature::Ktls, &missing, &all);
        assert!(said[0].starts_with("modprobe tls"), "{said:?}");
        let said = lines(Feature::Masquerade, &missing, &all);
        assert!(said[0].starts_with("modprobe nft_masq"), "{said:?}");
    }

    #[test]
    fn a_small_buffer_is_answered_by_its_size() {
        let missing = Missing {
            step: "a receive buffer",
            reason: MissingReason::Small {
                given: 425_984,
                wanted: 4 << 20,
            },
        };
        let said = lines(Feature::Udp, &missing, &situation(0, false));
        assert_eq!(
            said[0],
            "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304"
        );
    }

    #[test]
    fn a_path_without_quic_is_told_from_one_without_anything() {
        let report = |tcp: io::Result<std::time::Duration>| PathReport {
            address: "192.0.2.1:443".parse().unwrap(),
            tcp,
            quic: Err(io::ErrorKind::TimedOut.into()),
            route_mtu: Some(1500),
        };
        let said = path_lines(&report(Ok(std::time::Duration::ZERO)));
        assert!(said[0].contains("UDP port 443"), "{said:?}");
        let said = path_lines(&report(Err(io::ErrorKind::TimedOut.into())));
        assert!(said[0].contains("nothing answers at 192.0.2.1:443"));
    }
}
