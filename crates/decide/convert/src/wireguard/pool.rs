//! Pools of addresses in which one address can be asked for.

use std::net::IpAddr;

use ipnet::IpNet;

/// Shortest prefixes that are tried.
const SHORTEST: u8 = 8;

/// The first addresses of a pool, which are the node's own.
const OWN: u128 = 2;

/// The smallest pool that may give out this address: one in which it is not among the first, that has room for others, and at least as
/// large as its network.
pub(crate) fn around(address: IpNet) -> Option<IpNet> {
    let usual = if address.addr().is_ipv4() { 24 } else { 64 };
    let longest = match address.prefix_len() {
        length if length == address.max_prefix_len() => usual,
        length => length.min(address.max_prefix_len() - 3),
    };
    (SHORTEST..=longest).rev().find_map(|length| {
        let pool = IpNet::new(address.addr(), length).ok()?.trunc();
        is_given_by(address.addr(), pool).then_some(pool)
    })
}

/// Whether a pool can give out this address.
pub(crate) fn is_given_by(address: IpAddr, pool: IpNet) -> bool {
    let offset = bits(address).saturating_sub(bits(pool.network()));
    let is_last = pool.addr().is_ipv4() && address == pool.broadcast();
    pool.contains(&address) && offset > OWN && !is_last
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_among_the_first_of_its_pool() {
        let of = |text: &str| around(text.parse().unwrap()).map(|pool| pool.to_string());
        assert_eq!(of("10.9.0.7/24").unwrap(), "10.9.0.0/24");
        assert_eq!(of("10.9.0.7/32").unwrap(), "10.9.0.0/24");
        assert_eq!(of("10.9.0.2/24").unwrap(), "10.8.0.0/15");
        assert_eq!(of("fd00::7/128").unwrap(), "fd00::/64");
        assert_eq!(of("10.0.0.2/32"), None);
    }
}
