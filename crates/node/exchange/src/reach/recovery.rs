//! Recovery of datagrams that a path loses: offered by the node whose route asks for it, and agreed to by the one where the tunnel ends.
//!
//! Proxies in between pass the field on, and forward the frames as they do any HTTP Datagram. An end that does not agree gets datagrams as they are.

use std::sync::Arc;

use hermes_admit::routed::Routed;
use hermes_config::model::{LossRecovery, LossWord, Tunnel};
use hermes_http::{Kind, RequestHead};
use hermes_net::memory::Purpose;
use hermes_packet::Recovery;
use hermes_plug::refusal::Refusal;
use hermes_proto::datagram::{DatagramFormat, MAX_UDP_PAYLOAD};
use hermes_proto::fields::Fields;
use hermes_recovery::agreement::{FIELD, RecoveryOffer};
use hermes_recovery::{ParityShare, RecoverySettings};
use http::{HeaderName, HeaderValue};

use super::transforms::no_memory;

const FIELD_NAME: HeaderName = HeaderName::from_static(FIELD);

/// A side of a tunnel whose datagrams are recovered.
#[derive(Clone)]
pub(crate) struct RecoveredSide {
    pub(crate) recovery: Arc<Recovery>,
    /// The form of HTTP Datagrams with its frames.
    pub(crate) format: DatagramFormat,
}

/// An offer that this node has made to the far end.
pub(crate) struct OfferedRecovery {
    offer: RecoveryOffer,
    side: RecoveredSide,
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
        let Some(settings) = settings(routed).filter(|settings| *settings != PLAIN) else {
            return Ok(None);
        };

        let offer = RecoveryOffer::new(settings.within);
        let side = RecoveredSide::new(routed, &offer, settings)?;
        if let (Ok(value), Some(side)) = (HeaderValue::from_str(&offer.format()), side) {
            head.fields.insert(FIELD_NAME, value);
            return Ok(Some(Self { offer, side }));
        }
        Ok(None)
    }

    /// The side of the far end, if that agrees; the field is no one's business but ours.
    pub(crate) fn agreed(self, fields: &mut Fields) -> Option<RecoveredSide> {
        let agreed = offer_in(fields);
        fields.remove(FIELD_NAME);
        if agreed != Some(self.offer) {
            tracing::debug!("the far end recovers no datagrams");
            return None;
        }
        Some(self.side)
    }
}

impl RecoveredSide {
    /// Agrees to the offer of a request, where the tunnel ends at this node. One without room for it is none: its datagrams come as they are.
    pub(crate) fn answer(routed: &Routed, head: &RequestHead, fields: &mut Fields) -> Option<Self> {
        if head.kind() != Kind::ConnectUdp || routed.target.is_any() {
            return None;
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
        Ok(Some(Self {
            recovery: Recovery::new(settings, offer.within, charge),
            format,
        }))
    }
}

/// Times that one datagram is sent again, unless something else is said.
const TRIES: u8 = 5;

/// Nothing is recovered.
const PLAIN: RecoverySettings = RecoverySettings {
    within: std::time::Duration::ZERO,
    tries: 0,
    parity: ParityShare::None,
    bytes: 0,
};

/// How long datagrams wait for a missing one, unless something else is said: longer, and people notice it in a conversation.
const WITHIN: std::time::Duration = std::time::Duration::from_millis(200);

/// Parity for each hundred datagrams, unless something else is said: for losses of about 5 %.
const PERCENT: u8 = 20;

/// The settings of the route; `None` where it says nothing.
fn settings(routed: &Routed) -> Option<RecoverySettings> {
    let loss = routed.route.config.tunnel.as_ref().and_then(Tunnel::loss)?;
    let details = LossRecovery::details(loss);
    let within = details
        .and_then(|details| details.within.as_ref())
        .map_or(WITHIN, |within| within.0);
    let tries = details.and_then(|details| details.tries).unwrap_or(TRIES);
    let percent = details.and_then(|details| details.percent);

    Some(match loss.word() {
        LossWord::Plain => PLAIN,
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
    let mut lines = fields.values(FIELD_NAME);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };
    RecoveryOffer::parse(str::from_utf8(only.as_bytes()).ok()?.trim())
}
