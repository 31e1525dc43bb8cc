//! The addresses that the device of a listener wants of its tunnel, and the handling of others.

use hermes_ip::{Accepts, Adoption, DeviceAddresses, OtherAddress};
use hermes_proto::ip::IpPrefix;

use super::assignment::Assignment;

/// What happens where a tunnel assigns other addresses than the device has, and not those that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherAssigned {
    /// The device gets them in place of its own.
    Adopt,
    /// Packets are translated to them and back, one for one.
    Translate,
    /// The tunnel is not used for their family, and ends if it is of no use for any.
    Refuse,
}

/// How often a device asks for its addresses before it takes others without an answer: a request may have been lost with a path, and an end
/// of another make may leave it out.
#[doc(alias = "bound")]
pub(super) const MOST_REQUESTS: u8 = 4;

/// The addresses that a device wants of its tunnel. It keeps those that it has where it can: connections are bound to them.
#[derive(Debug)]
pub(super) struct WantedAddresses {
    /// Of each family one, if the configuration gives them.
    held: Vec<IpPrefix>,
    is_configured: bool,
    other: OtherAssigned,
    /// How often they were asked for since there was an answer.
    asked: u8,
    /// The last assignment that answered a request.
    answered: Option<Vec<IpPrefix>>,
}

/// What to do where a tunnel assigns addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Ask for these, which the device has and the tunnel did not assign.
    Request(Vec<IpPrefix>),
    /// The device takes the assigned addresses.
    Adopt,
    /// The device keeps its addresses.
    Keep(Adoption),
}

impl WantedAddresses {
    pub(super) fn new(configured: &[IpPrefix], other: OtherAssigned) -> Self {
        Self {
            held: configured.to_vec(),
            is_configured: !configured.is_empty(),
            other,
            asked: 0,
            answered: None,
        }
    }

    /// A new tunnel: its addresses were asked for, or are to come.
    pub(super) fn begin(&mut self) {
        self.asked = u8::from(self.is_configured);
        self.answered = None;
    }

    /// The addresses that the device has, or is to have.
    pub(super) fn held(&self) -> &[IpPrefix] {
        &self.held
    }

    /// The addresses that the tunnel may assign.
    pub(super) fn accepts(&self) -> Accepts {
        let everything = [IpPrefix::ALL_V4, IpPrefix::ALL_V6];
        let is_held = |family: &IpPrefix| {
            let mut held = self.held.iter();
            held.any(|one| one.is_ipv4() == family.is_ipv4())
        };
        match (self.other, self.is_configured) {
            (OtherAssigned::Adopt, _) | (OtherAssigned::Translate, false) => Accepts::All,
            // The device stays without a family for which it has no address.
            (OtherAssigned::Translate, true) => {
                Accepts::within(everything.into_iter().filter(is_held))
            }
            (OtherAssigned::Refuse, true) => Accepts::within(self.held.iter().copied()),
            (OtherAssigned::Refuse, false) => {
                let open = everything.into_iter().filter(|family| !is_held(family));
                Accepts::within(self.held.iter().copied().chain(open))
            }
        }
    }

    /// Decides about an assignment. A tunnel assigns unasked where it leads to another end than before, or where another device of its user
    /// comes for its own address.
    pub(super) fn handle_assigned(&mut self, assignment: Assignment<'_>) -> Wanted {
        let Assignment {
            usable: taken,
            all: assigned,
            is_answer,
            ..
        } = assignment;
        let is_lost = |held: &&IpPrefix| !taken.iter().any(|one| one.covers(held));
        let lost: Vec<IpPrefix> = self.held.iter().filter(is_lost).copied().collect();
        // The proxy repeats its last answer.
        let is_known = self.answered.as_deref() == Some(assigned);
        // An unasked assignment may cross our request on its way: only an answer decides, or the last of several tries.
        let is_decided = is_answer && self.asked > 0 || self.asked >= MOST_REQUESTS;
        if !lost.is_empty() && !is_known && !is_decided {
            self.asked += 1;
            return Wanted::Request(lost);
        }

        self.asked = 0;
        self.answered = Some(assigned.to_vec());
        let other = match self.other {
            OtherAssigned::Adopt => {
                self.held = taken.to_vec();
                return Wanted::Adopt;
            }
            OtherAssigned::Translate => OtherAddress::Translate,
            OtherAssigned::Refuse => OtherAddress::Refuse,
        };
        let adoption = DeviceAddresses::new(&self.held, other).adopt(taken);
        self.held.extend(&adoption.new);
        Wanted::Keep(adoption)
    }
}

#[cfg(test)]
mod tests {
    use hermes_ip::Translation;

    use super::*;

    fn prefixes(texts: &[&str]) -> Vec<IpPrefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    impl WantedAddresses {
        fn assigned(&mut self, taken: &[IpPrefix]) -> Wanted {
            self.assigned_of(taken, taken)
        }

        /// The answer, where there was a request.
        fn assigned_of(&mut self, taken: &[IpPrefix], assigned: &[IpPrefix]) -> Wanted {
            self.handle_assigned(Assignment {
                usable: taken,
                all: assigned,
                is_answer: self.asked > 0,
                has_refused: false,
            })
        }
    }

    #[test]
    fn a_device_keeps_its_addresses_where_the_tunnel_gives_them() {
        let [first, second] = [&["10.7.0.3/32"], &["10.9.0.3/32"]].map(|one| prefixes(one));
        let mut wanted = WantedAddresses::new(&[], OtherAssigned::Adopt);
        wanted.begin();
        assert_eq!(wanted.assigned(&first), Wanted::Adopt);

        // The tunnel leads to another end, which gives the address that is asked for.
        let request = Wanted::Request(first.clone());
        assert_eq!(wanted.assigned(&second), request);
        assert_eq!(wanted.assigned(&first), Wanted::Adopt);

        // This one does not.
        assert_eq!(wanted.assigned(&second), request);
        assert_eq!(wanted.assigned(&second), Wanted::Adopt);
        assert_eq!(wanted.assigned(&second), Wanted::Adopt);
    }

    #[test]
    fn other_addresses_that_are_no_answer_are_not_taken() {
        let [own, other, third] =
            [&["10.7.0.3/32"], &["10.7.0.4/32"], &["10.7.0.5/32"]].map(|one| prefixes(one));
        let mut wanted = WantedAddresses::new(&[], OtherAssigned::Adopt);
        wanted.begin();
        assert_eq!(wanted.assigned(&own), Wanted::Adopt);

        // An end that it comes to gives it another, and yet another before it answers.
        let request = Wanted::Request(own.clone());
        for given in [&other, &third] {
            assert_eq!(wanted.handle_assigned(Assignment::unasked(given)), request);
        }
        let answer = Assignment::unasked(&own).answer();
        assert_eq!(wanted.handle_assigned(answer), Wanted::Adopt);

        // One that never answers is not asked for ever.
        for given in [&other, &third, &other, &third] {
            assert_eq!(wanted.handle_assigned(Assignment::unasked(given)), request);
        }
        assert_eq!(
            wanted.handle_assigned(Assignment::unasked(&other)),
            Wanted::Adopt
        );
        assert_eq!(wanted.held(), other);
    }

    #[test]
    fn what_the_configuration_says_is_asked_of_each_end_once() {
        let [own, other, third] =
            [&["10.7.0.3/32"], &["10.9.0.3/32"], &["10.8.0.3/32"]].map(|one| prefixes(one));
        let mut wanted = WantedAddresses::new(&own, OtherAssigned::Refuse);
        let kept = Wanted::Keep(Adoption::default());
        wanted.begin();
        // What is not accepted is not among what may be used.
        assert_eq!(wanted.assigned_of(&[], &other), kept);
        assert_eq!(wanted.assigned_of(&own, &own), kept);
        let request = Wanted::Request(own.clone());
        assert_eq!(wanted.assigned_of(&[], &other), request);
        assert_eq!(wanted.assigned_of(&[], &other), kept);
        assert_eq!(wanted.assigned_of(&[], &other), kept);
        assert_eq!(wanted.assigned_of(&[], &third), request);
    }

    #[test]
    fn what_a_device_has_is_translated_until_it_is_assigned() {
        let [own, other] = [&["10.7.0.3/32"], &["10.9.0.3/32"]].map(|one| prefixes(one));
        let mut wanted = WantedAddresses::new(&[], OtherAssigned::Translate);
        wanted.begin();
        let adoption = |new: &[IpPrefix], translations: Vec<Translation>| {
            Wanted::Keep(Adoption {
                new: new.to_vec(),
                refused: Vec::new(),
                translations,
            })
        };
        assert_eq!(wanted.assigned(&own), adoption(&own, Vec::new()));
        assert_eq!(wanted.held(), own);

        assert_eq!(wanted.assigned(&other), Wanted::Request(own.clone()));
        let translation = Translation {
            device: own[0].address(),
            tunnel: other[0].address(),
        };
        for _ in 0..2 {
            assert_eq!(wanted.assigned(&other), adoption(&[], vec![translation]));
        }
        assert_eq!(wanted.assigned(&own), adoption(&[], Vec::new()));
    }

    #[test]
    fn a_device_that_refuses_others_takes_a_family_that_it_has_not() {
        let own = prefixes(&["10.7.0.3/32"]);
        let mut wanted = WantedAddresses::new(&[], OtherAssigned::Refuse);
        assert_eq!(
            wanted.accepts(),
            Accepts::within([IpPrefix::ALL_V4, IpPrefix::ALL_V6])
        );
        wanted.assigned(&own);
        assert_eq!(
            wanted.accepts(),
            Accepts::within([own[0], IpPrefix::ALL_V6])
        );
        let configured = WantedAddresses::new(&own, OtherAssigned::Translate);
        assert_eq!(configured.accepts(), Accepts::within([IpPrefix::ALL_V4]));
    }
}
