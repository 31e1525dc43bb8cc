//! Zones of link-local addresses (RFC 4007): the interface on whose link `fe80::1%eth0` is.

use std::net::{Ipv6Addr, SocketAddrV6};

use nix::net::if_::{if_indextoname, if_nametoindex};

use super::ScalarError;

/// Bytes of an interface's name (`IFNAMSIZ`, without its end).
const NAME: usize = 15;

/// The index of an interface, by its name or number, as it is now; `None` if this machine has no
/// interface of that name.
pub fn zone_index(zone: &str) -> Option<u32> {
    if let Ok(number) = zone.parse() {
        return (number != 0).then_some(number);
    }
    if_nametoindex(zone).ok()
}

/// Splits an address from its zone: `fe80::1%eth0`.
///
/// # Errors
/// A zone without a link-local address, or the other way round.
pub(super) fn split_zone(text: &str) -> Result<(Ipv6Addr, Option<&str>), ScalarError> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let address: Ipv6Addr = address
        .parse()
        .map_err(|_| ScalarError::new(format!("`{text}` is not an IPv6 address")))?;

    match zone {
        None if address.is_unicast_link_local() => {
            let reason = format!("`{address}` is link-local: it is another machine on each link");
            Err(ScalarError::new(reason).remedy(format!("name the interface: [{address}%eth0]")))
        }
        Some(_) if !address.is_unicast_link_local() => {
            let reason = format!("`{address}` is not link-local, and has no zone");
            Err(ScalarError::new(reason).remedy(format!("write [{address}]")))
        }
        Some(zone) if !is_name(zone) => {
            let reason = format!("`{}` names no interface", zone.escape_default());
            Err(ScalarError::new(reason).remedy("`ip link` lists the interfaces"))
        }
        zone => Ok((address, zone)),
    }
}

/// Whether Linux takes it for the name of an interface.
fn is_name(zone: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_graphic() && !b"/:[]%".contains(&byte);
    !zone.is_empty() && zone.len() <= NAME && zone.bytes().all(is_letter)
}

/// The address of a socket on an interface.
///
/// # Errors
/// This machine has no such interface now.
pub(super) fn on_interface(
    address: Ipv6Addr,
    zone: &str,
    port: u16,
) -> Result<SocketAddrV6, ScalarError> {
    let index = zone_index(zone).ok_or_else(|| {
        ScalarError::new(format!("this machine has no interface `{zone}`"))
            .remedy("`ip link` lists the interfaces")
    })?;
    Ok(SocketAddrV6::new(address, port, 0, index))
}

/// An address as it is written: with the name of its interface, where there is one.
pub(super) fn written(address: &SocketAddrV6) -> String {
    let index = address.scope_id();
    if index == 0 {
        return address.to_string();
    }
    let name = if_indextoname(index).ok();
    let name = name.and_then(|name| name.into_string().ok());
    let zone = name.unwrap_or_else(|| index.to_string());
    format!("[{}%{zone}]:{}", address.ip(), address.port())
}
