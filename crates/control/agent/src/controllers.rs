//! The controllers of an overlay, as a node knows them: one that it attends, and others for when that one is lost.

use hermes_api::Controllers;

use crate::{ControllerUrl, Membership};

/// Controllers that a node keeps.
#[doc(alias = "bound")]
const KEPT: usize = 16;

/// Bytes of the longest address.
#[doc(alias = "bound")]
const URL: usize = 300;

/// The addresses among those that were told.
pub(crate) fn told(urls: &[String]) -> Vec<String> {
    let urls = urls.iter().filter(|url| is_url(url)).take(KEPT);
    urls.cloned().collect()
}

fn is_url(url: &str) -> bool {
    url.len() <= URL && url.parse::<ControllerUrl>().is_ok()
}

impl Membership {
    /// Keeps controllers that were told, and turns to the one that leads. The one that was attended stays known: it was reached.
    pub(crate) fn follow(&mut self, controllers: &Controllers) {
        let attended = self.controller.clone();
        if is_url(&controllers.leader) {
            self.controller.clone_from(&controllers.leader);
        }
        let mut known = told(&controllers.urls);
        if !known.contains(&attended) {
            known.push(attended);
        }
        known.retain(|url| *url != self.controller);
        self.controllers = known;
    }

    /// Turns to another controller, and comes back to this one after all others.
    pub(crate) fn turn_to_next(&mut self) {
        if self.controllers.is_empty() {
            return;
        }
        let next = self.controllers.remove(0);
        let before = std::mem::replace(&mut self.controller, next);
        self.controllers.push(before);
    }
}

#[cfg(test)]
mod tests {
    use hermes_api::{JoinAnswer, SigningKey};

    use super::*;

    fn membership() -> Membership {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let answer = JoinAnswer {
            overlay: "office".to_owned(),
            node: "laptop".to_owned(),
            statement_key: key.verifying().to_text(),
            ..JoinAnswer::default()
        };
        Membership::of(&answer, "https://one:1".to_owned()).unwrap()
    }

    fn told(urls: &[&str], leader: &str) -> Controllers {
        Controllers {
            urls: urls.iter().map(|&url| url.to_owned()).collect(),
            leader: leader.to_owned(),
        }
    }

    #[test]
    fn a_node_turns_to_the_leader_and_then_to_each_other_controller() {
        let mut node = membership();
        node.follow(&told(
            &["https://one:1", "https://two:2", "https://three:3"],
            "https://two:2",
        ));
        assert_eq!(node.controller, "https://two:2");
        let mut tried = vec![node.controller.clone()];
        for _ in 0..2 {
            node.turn_to_next();
            tried.push(node.controller.clone());
        }
        tried.sort_unstable();
        assert_eq!(tried, ["https://one:1", "https://three:3", "https://two:2"]);
    }

    #[test]
    fn an_address_that_is_none_changes_nothing() {
        let mut node = membership();
        let long = format!("https://{}:1", "x".repeat(400));
        node.follow(&told(&["http://two:2", &long], "file:///etc"));
        assert_eq!(node, membership_of(&node));
        node.turn_to_next();
        assert_eq!(node.controller, "https://one:1");
    }

    fn membership_of(node: &Membership) -> Membership {
        Membership {
            statement_key: node.statement_key.clone(),
            ..membership()
        }
    }
}
