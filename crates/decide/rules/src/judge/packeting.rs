//! The policy's decision about a packet, in steps.

use hermes_config::{child, element};
use hermes_proto::ip::Packet;

use super::steps::{Phase, Step, Steps};
use super::{Authenticated, Rules};
use crate::Whom;
use crate::packets::{NONE_ALLOWS, OpenedBy, PacketRule};

/// Where rules on packets are written.
const RULES: &str = "policy.packets.rules";

impl<H> Rules<H> {
    /// Whether a packet that this side of a tunnel sends may pass, by the rules that are about its user; a step for each rule up to the one
    /// that decides.
    ///
    /// # Errors
    /// The packet may not pass; the words name the rule.
    pub fn judge_packet(
        &self,
        authenticated: Authenticated<'_>,
        packet: &Packet<'_>,
        sender: OpenedBy,
        steps: &mut impl Steps,
    ) -> Result<String, String> {
        let mut take = |path: String, said: String| {
            let phase = Phase::Policy;
            steps.take(Step { phase, path, said });
        };
        let Some(rules) = &self.packets else {
            let said = "without rules on packets: allowed";
            take("policy".to_owned(), said.to_owned());
            return Ok(said.to_owned());
        };

        let user = authenticated.user.map(|name| self.aliases.user_of(name));
        let claimed = authenticated.claimed_of(user, &self.aliases);
        let whom = Whom::new(&self.names, user, claimed);
        let judged = rules.explain(&whom, packet, sender);

        let mut last = None;
        for compared in &judged.compared {
            let rule = compared.rule;
            let place = element(RULES, rule.place);
            match &compared.unmet {
                Some(unmet) => {
                    let said = format!("{}: no, {}", rule.name, unmet.said);
                    take(child(&place, unmet.key), said);
                }
                None => {
                    take(place, format!("{}: yes; {}", rule.name, effect(rule)));
                    last = Some(rule.says());
                }
            }
        }

        if let Some(rule) = judged.answers {
            let said = format!("{}: yes, as an answer; allowed", rule.name);
            take(element(RULES, rule.place), said);
            last = Some(rule.says());
        }
        let last = last.unwrap_or_else(|| {
            let said = match judged.is_allowed {
                true => "no rule on packets decides: allowed",
                false => NONE_ALLOWS,
            };
            take("policy.packets.default".to_owned(), said.to_owned());
            said.to_owned()
        });

        match judged.is_allowed {
            true => Ok(last),
            false => Err(last),
        }
    }
}

fn effect(rule: &PacketRule) -> &'static str {
    match rule.allow {
        true => "allowed",
        false => "denied",
    }
}
