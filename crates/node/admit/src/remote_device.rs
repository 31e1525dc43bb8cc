//! Devices on other machines: from their configuration to settings of WireGuard.

use std::str::FromStr;

use hermes_config::Problem;
use hermes_config::model::{DataSource, Document, Wireguard};
use hermes_packet::tun::RemoteSettings;
use hermes_wireguard::{NoKey, PeerSettings, PresharedKey, PrivateKey};
use ipnet::IpNet;

/// The MTU of devices on other machines for which none is configured: it fits Ethernet with either family outside, as WireGuard's own
/// devices have it.
pub const REMOTE_MTU: u16 = 1420;

/// The settings of WireGuard for a device with these addresses, and this MTU. Secrets are read.
///
/// # Errors
/// The problem of a secret, in words.
pub fn settings(
    wireguard: &Wireguard,
    addresses: &[IpNet],
    mtu: u32,
) -> Result<RemoteSettings, String> {
    let peer = &wireguard.peer;
    let allowed = match peer.allowed.is_empty() {
        true => addresses.iter().map(|net| net.addr().into()).collect(),
        false => peer.allowed.0.clone(),
    };
    let preshared = peer.preshared_key_file.as_ref().map(key::<PresharedKey>);
    let public_key = peer.public_key.to_string().parse();
    let listen = wireguard.listen.socket_address();

    Ok(RemoteSettings {
        listen: listen.ok_or_else(|| format!("`{}` is not an address", wireguard.listen))?,
        key: key(&wireguard.private_key_file)?,
        peer: PeerSettings {
            public_key: public_key.map_err(|error: NoKey| error.to_string())?,
            preshared_key: preshared.transpose()?,
            endpoint: peer
                .endpoint
                .as_ref()
                .and_then(|endpoint| endpoint.socket_address()),
            allowed,
            keepalive: peer.keepalive.map(|interval| interval.0),
            mtu: mtu as usize,
        },
    })
}

/// Reports problems with the secrets of devices on other machines.
pub fn check(document: &Document, problems: &mut Vec<Problem>) {
    for (path, wireguard) in document.wireguard() {
        for (name, secret) in wireguard.secrets() {
            if let Err(reason) = key::<PrivateKey>(secret) {
                let missing = secret.file().filter(|file| !file.0.exists());
                let remedy = missing
                    .filter(|_| *secret == wireguard.private_key_file)
                    .map(|file| format!("run: hermes wireguard-key '{file}'"));
                problems.push(Problem {
                    remedy,
                    ..Problem::new(format!("{path}.{name}"), reason)
                });
            }
        }
    }
}

fn key<K: FromStr<Err = NoKey>>(secret: &DataSource) -> Result<K, String> {
    let text = secret.secret()?;
    text.parse()
        .map_err(|error: NoKey| format!("{secret}: {error}"))
}
