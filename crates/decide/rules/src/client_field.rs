//! The client of a request that came through other proxies: the nearest address that is not one of
//! theirs.

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::ClientAddress;
use hermes_proto::client_address::{NoAddress, hops};
use hermes_proto::fields::Fields;
use http::HeaderName;
use ipnet::IpNet;

/// The field that names clients, and the proxies that are trusted in it.
#[derive(Debug, Clone)]
pub struct ClientField {
    name: HeaderName,
    proxies: Vec<IpNet>,
}

/// The client of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// An untrusted connection: other addresses in the field do not count.
    Stranger,
    /// The proxy itself, which tells of no one.
    Proxy,
    /// The client at this address; its port is 0 where the field does not say.
    Named(SocketAddr),
    /// Something that is no address stands where the client's should. The address is that of the farthest proxy that is known, if it
    /// is another one than that at the other end of the connection.
    Unreadable(Option<SocketAddr>),
}

impl ClientField {
    /// The field of a listener; `None` if `lint` has refused its name.
    pub fn new(config: &ClientAddress) -> Option<Self> {
        Some(Self {
            name: config.field.parse().ok()?,
            proxies: config.from.clone(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    /// Whether a proxy at this address is trusted; one on a Unix socket is, as the mode of the
    /// socket decides who may connect.
    pub fn believes(&self, proxy: Option<IpAddr>) -> bool {
        proxy.is_none_or(|ip| self.is_proxy(ip))
    }

    fn is_proxy(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.proxies.iter().any(|prefix| prefix.contains(&ip))
    }

    /// The client of a request with these fields over a connection from this address. Each proxy
    /// appends the address of its peer, so the last address that is no proxy's is the client's; the
    /// client may have written all entries before it.
    pub fn client(&self, fields: &Fields, connection: Option<IpAddr>) -> Client {
        if !self.believes(connection) {
            return Client::Stranger;
        }

        let is_here = connection.is_none_or(|ip| ip.to_canonical().is_loopback());
        let mut farthest = None;
        for hop in hops(fields, &self.name) {
            match hop {
                // Another machine cannot know of clients on this one.
                Ok(address) if address.ip().is_loopback() && !is_here => {
                    return Client::Unreadable(farthest);
                }
                Ok(address) if self.is_proxy(address.ip()) => farthest = Some(address),
                Ok(address) => return Client::Named(address),
                Err(NoAddress) => return Client::Unreadable(farthest),
            }
        }

        farthest.map_or(Client::Proxy, Client::Named)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(lines: &[&str], connection: &str) -> Client {
        let config = ClientAddress {
            field: "X-Forwarded-For".to_owned(),
            from: ["10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1/32"]
                .map(|prefix| prefix.parse().unwrap())
                .to_vec(),
        };
        let field = ClientField::new(&config).unwrap();
        let mut fields = Fields::new();
        for line in lines {
            fields.append(field.name(), HeaderValue::from_str(line).unwrap());
        }
        field.client(&fields, connection.parse().ok())
    }

    fn named(address: &str) -> Client {
        Client::Named(format!("{address}:0").parse().unwrap())
    }

    #[test]
    fn the_last_address_that_is_no_proxys_is_the_clients() {
        let forged = "192.0.2.66, 203.0.113.9";
        assert_eq!(client(&[forged], "10.0.0.1"), named("203.0.113.9"));
        assert_eq!(
            client(&[forged, "10.0.0.2"], "10.0.0.1"),
            named("203.0.113.9")
        );
        assert_eq!(
            client(&[forged, "::ffff:10.0.0.2"], "::ffff:10.0.0.1"),
            named("203.0.113.9")
        );
        assert_eq!(
            client(&["2001:db8:2::7, 2001:db8:1::7"], "10.0.0.1"),
            named("[2001:db8:2::7]")
        );
        // A client within the network of the proxies.
        assert_eq!(client(&["10.9.9.9"], "10.0.0.1"), named("10.9.9.9"));
        assert_eq!(client(&[forged], "not an address"), named("203.0.113.9"));
    }

    #[test]
    fn a_stranger_names_no_one() {
        assert_eq!(client(&["203.0.113.9"], "192.0.2.1"), Client::Stranger);
        assert_eq!(client(&[], "192.0.2.1"), Client::Stranger);
        assert_eq!(client(&[], "10.0.0.1"), Client::Proxy);
    }

    #[test]
    fn what_is_no_address_makes_no_one_nearer_than_he_is() {
        assert_eq!(client(&["unknown"], "10.0.0.1"), Client::Unreadable(None));
        let known = Some("10.0.0.2:0".parse().unwrap());
        assert_eq!(
            client(&["203.0.113.9, x, 10.0.0.2"], "10.0.0.1"),
            Client::Unreadable(known)
        );
        // An entry that a client wrote before its own address is not looked at.
        assert_eq!(
            client(&["x, \", 203.0.113.9"], "10.0.0.1"),
            named("203.0.113.9")
        );
        assert_eq!(client(&["127.0.0.1"], "10.0.0.1"), Client::Unreadable(None));
        assert_eq!(client(&["127.0.0.9"], "127.0.0.1"), named("127.0.0.9"));
    }
}
