//! The tunnels that share the device of a listener: each is a listener of its own to all that decides.

use hermes_config::model::{Listener, Tun};

/// Under which name the rules of a tunnel are kept; no listener has it.
pub fn key(listener: &str, tunnel: &str) -> String {
    format!("{listener}/{tunnel}")
}

/// The listener as it is for each of its tunnels, by their names.
pub fn listeners(config: &Listener) -> impl Iterator<Item = (&str, Listener)> {
    let tunnels = config.tun().into_iter().flat_map(Tun::tunnels);
    tunnels.map(|(name, tunnel)| {
        let mut own = config.clone();
        // Those of the tunnel come last, and replace present ones.
        for (field, value) in &tunnel.set {
            own.set.shift_remove(field);
            own.set.insert(field.clone(), value.clone());
        }
        own.user = tunnel.user.clone().or(own.user);
        (name, own)
    })
}

#[cfg(test)]
mod tests {
    use hermes_config::model::{
        ListenerKind, OneOrMany, SplitTunnel, Template, TunDetails, TunListener,
    };

    use super::*;

    #[test]
    fn a_tunnel_adds_its_fields_and_its_user_to_those_of_the_listener() {
        let fields = |value: &str| {
            let value: Template = value.parse().unwrap();
            [("destination".to_owned(), value)].into_iter().collect()
        };
        let tunnel = |user: Option<&str>, value| SplitTunnel {
            prefixes: OneOrMany(Vec::new()),
            set: fields(value),
            user: user.map(str::to_owned),
        };
        let tunnels = [
            ("lab".to_owned(), tunnel(Some("alice"), "lab")),
            ("campus".to_owned(), tunnel(None, "campus")),
        ];
        let details = TunDetails {
            other_address: None,
            name: "hermes0".to_owned(),
            addresses: Vec::new(),
            routes: Vec::new(),
            exclude: Vec::new(),
            only: None,
            except: None,
            stack: false,
            wireguard: None,
            mtu: None,
            queues: None,
            super_packets: false,
            dns: None,
            tunnels: tunnels.into_iter().collect(),
        };
        let tun = Tun::Details(Box::new(details));
        let mut listener = Listener::from(ListenerKind::Tun(TunListener { tun }));
        listener.user = Some("bob".to_owned());
        listener.set = fields("any");

        let own: Vec<_> = listeners(&listener).collect();
        let seen = own.iter().map(|(name, own)| {
            let value = own.set["destination"].to_string();
            (*name, own.user.as_deref(), value)
        });
        let expected = [
            ("lab", Some("alice"), "lab".to_owned()),
            ("campus", Some("bob"), "campus".to_owned()),
        ];
        assert!(seen.eq(expected));
    }
}
