//! Recovery of datagrams that a path loses: offered by the node whose route asks for it, and agreed to by the one where the tunnel ends.
//!
//! Proxies in between pass the field on, and forward the frames as they do any HTTP Datagram. An end that does not agree gets datagrams as they are.

use std::sync::Arc;
use std::time::Duration;

use hermes_admit::routed::Routed;
use hermes_config::model::{LossRecovery, LossWord, Tunnel};
use hermes_http::h3::GROUP_MEMORY;
use hermes_http::{Kind, RequestHead};
use hermes_net::memory::{Charge, Purpose};
use hermes_packet::Recovery;
use hermes_plug::refusal::Refusal;
use hermes_proto::datagram::{DatagramFormat, MAX_UDP_PAYLOAD};
use hermes_proto::fields::Fields;
use hermes_recovery::agreement::{FIELD, GROUPS_FIELD, RecoveryOffer, format_groups, parse_groups};
use hermes_recovery::{ParityShare, RecoverySettings};
use http::{HeaderName, HeaderValue};

use super::transforms::no_memory;

const FIELD_NAME: HeaderName = HeaderName::from_static(FIELD);
const GROUPS_NAME: HeaderName = HeaderName::from_static(GROUPS_FIELD);

/// A side of a tunnel whose datagrams are recovered.
pub(crate) enum RecoveredSide {
    /// Both ends of the tunnel mend losses.
    Frames {
        recovery: Arc<Recovery>,
        /// The form of HTTP Datagrams with its frames.
        format: DatagramFormat,
    },
    /// The hop's datagrams leave in groups, which QUIC sends again.
    Groups {
        /// After this time a group is given up.
        within: Duration,
        charge: Charge,
    },
    /// Other nodes, at the ends of the tunnel, mend losses; frames pass.
    Between,
}

/// An offer that this node has made to the far end.
pub(crate) enum OfferedRecovery {
    /// The far end has to agree.
    Frames(RecoveryOffer, RecoveredSide),
    /// The next hop's settings say whether it agrees.
    Groups(RecoveredSide),
}

impl OfferedRecovery {
    /// Offers it, where the route asks for it and no node before this one has.
    ///
    /// # Errors
    /// The tunnel's user or source has no room for it.
    pub(crate) fn ask(routed: &Routed, head: &mut RequestHead) -> Result<Option<Self>, Refusal> {
        let is_possible = head.kind() == Kind::ConnectUdp && !routed.target.is_any();
        if !is_possible || head.fields.contains_key(FIELD_NAME) {
            return Ok(None);
        }
        if head.fields.contains_key(GROUPS_NAME) {
            return Ok(RecoveredSide::between(routed, head).map(Self::Groups));
        }
        if is_by_groups(routed) {
            let within = within(routed);
            let side = RecoveredSide::groups(routed, within)?;
            if let Ok(value) = HeaderValue::from_str(&format_groups(within)) {
                head.fields.insert(GROUPS_NAME, value);
            }
            return Ok(Some(Self::Groups(side)));
        }
        let Some(settings) = settings(routed).filter(|settings| *settings != PLAIN) else {
            return Ok(None);
        };

        let offer = RecoveryOffer::new(settings.within);
        let side = RecoveredSide::new(routed, &offer, settings)?;
        if let (Ok(value), Some(side)) = (HeaderValue::from_str(&offer.format()), side) {
            head.fields.insert(FIELD_NAME, value);
            return Ok(Some(Self::Frames(offer, side)));
        }
        Ok(None)
    }

    /// The side of the far end, as this answer settles it: by an offer of this node, or one that has passed.
    pub(crate) fn settled(offered: Option<Self>, fields: &mut Fields) -> Option<RecoveredSide> {
        let own = offered.and_then(|offered| offered.agreed(fields));
        own.or_else(|| RecoveredSide::passing(fields))
    }

    /// The side of the far end, if that agrees; the field is no one's business but ours.
    fn agreed(self, fields: &mut Fields) -> Option<RecoveredSide> {
        let agreed = offer_in(fields);
        let (offer, side) = match self {
            Self::Groups(side) => return Some(side),
            Self::Frames(offer, side) => (offer, side),
        };
        fields.remove(FIELD_NAME);
        if agreed != Some(offer) {
            tracing::debug!("the far end recovers no datagrams");
            return None;
        }
        Some(side)
    }
}

impl RecoveredSide {
    /// Agrees to the offer of a request, where the tunnel ends at this node. One without room for it is none: its datagrams come as they are.
    pub(crate) fn answer(routed: &Routed, head: &RequestHead, fields: &mut Fields) -> Option<Self> {
        if head.kind() != Kind::ConnectUdp || routed.target.is_any() {
            return None;
        }
        if head.fields.contains_key(GROUPS_NAME) {
            return Self::between(routed, head);
        }
        let offer = offer_in(&head.fields)?;
        let own = settings(routed).unwrap_or(RecoverySettings::auto(offer.within, TRIES));
        if own == PLAIN {
            return None;
        }

        let own = RecoverySettings {
            within: offer.within,
            ..own
        };
        let side = Self::new(routed, &offer, own).ok()??;
        let value = HeaderValue::from_str(&offer.format()).ok()?;
        fields.insert(FIELD_NAME, value);
        Some(side)
    }

    /// The client's side, where the tunnel goes on to another node, which answered so.
    pub(crate) fn of_client(routed: &Routed, head: &RequestHead, answer: &Fields) -> Option<Self> {
        Self::between(routed, head).or_else(|| Self::passing(answer))
    }

    /// Groups that the client of the tunnel asks for, on one of its hops. Where there is no room for them, datagrams travel as they are.
    fn between(routed: &Routed, head: &RequestHead) -> Option<Self> {
        let is_plain = settings(routed) == Some(PLAIN) && !is_by_groups(routed);
        if head.kind() != Kind::ConnectUdp || routed.target.is_any() || is_plain {
            return None;
        }
        let within = parse_groups(only(&head.fields, GROUPS_NAME)?)?;
        Self::groups(routed, within).ok()
    }

    /// This side of a tunnel whose ends have agreed on recovery, as this answer says that passes.
    fn passing(answer: &Fields) -> Option<Self> {
        offer_in(answer).map(|_| Self::Between)
    }

    fn groups(routed: &Routed, within: Duration) -> Result<Self, Refusal> {
        let charge = routed.account().charge(Purpose::Transforms, GROUP_MEMORY);
        let charge = charge.map_err(|overdrawn| no_memory("tunnel.loss", &overdrawn))?;
        Ok(Self::Groups { within, charge })
    }

    fn new(
        routed: &Routed,
        offer: &RecoveryOffer,
        settings: RecoverySettings,
    ) -> Result<Option<Self>, Refusal> {
        let Some(format) = DatagramFormat::new(offer.context, MAX_UDP_PAYLOAD) else {
            return Ok(None);
        };
        let memory = Recovery::memory(&settings);
        let charge = routed.account().charge(Purpose::Transforms, memory);
        let charge = charge.map_err(|overdrawn| no_memory("tunnel.loss", &overdrawn))?;
        Ok(Some(Self::Frames {
            recovery: Recovery::new(settings, offer.within, charge),
            format,
        }))
    }
}

/// Times that one datagram is sent again, unless something else is said.
const TRIES: u8 = 5;

/// Nothing is recovered.
const PLAIN: RecoverySettings = RecoverySettings {
    within: Duration::ZERO,
    tries: 0,
    parity: ParityShare::None,
    bytes: 0,
};

/// How long datagrams wait for a missing one, unless something else is said: longer, and people notice it in a conversation.
const WITHIN: Duration = Duration::from_millis(200);

/// Parity for each hundred datagrams, unless something else is said: for losses of about 5 %.
const PERCENT: u8 = 20;

/// Whether the route asks for groups.
fn is_by_groups(routed: &Routed) -> bool {
    let loss = routed.route.config.tunnel.as_ref().and_then(Tunnel::loss);
    loss.is_some_and(|loss| loss.word() == LossWord::Groups)
}

/// The route's bound of time.
fn within(routed: &Routed) -> Duration {
    let loss = routed.route.config.tunnel.as_ref().and_then(Tunnel::loss);
    let details = loss.and_then(LossRecovery::details);
    let within = details.and_then(|details| details.within.as_ref());
    within.map_or(WITHIN, |within| within.0)
}

/// The settings of the route; `None` where it says nothing. Of groups, the ends have no settings.
fn settings(routed: &Routed) -> Option<RecoverySettings> {
    let loss = routed.route.config.tunnel.as_ref().and_then(Tunnel::loss)?;
    let details = LossRecovery::details(loss);
    let within = within(routed);
    let tries = details.and_then(|details| details.tries).unwrap_or(TRIES);
    let percent = details.and_then(|details| details.percent);

    Some(match loss.word() {
        LossWord::Plain | LossWord::Groups => PLAIN,
        LossWord::Retransmit => RecoverySettings::retransmission(within, tries),
        LossWord::Parity => RecoverySettings::parity(within, percent.unwrap_or(PERCENT)),
        LossWord::Auto => RecoverySettings {
            parity: percent.map_or(ParityShare::ByLoss, ParityShare::Percent),
            ..RecoverySettings::auto(within, tries)
        },
    })
}

/// The offer, or the agreement, in a head; `None` where there is not exactly one.
fn offer_in(fields: &Fields) -> Option<RecoveryOffer> {
    RecoveryOffer::parse(only(fields, FIELD_NAME)?)
}

/// The value of a field that has exactly one line.
fn only(fields: &Fields, name: HeaderName) -> Option<&str> {
    let mut lines = fields.values(name);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };
    Some(str::from_utf8(only.as_bytes()).ok()?.trim())
}
