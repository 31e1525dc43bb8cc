//! A policy on flows, each seen from the side that opened it: it is asked once about a flow, whichever of its packets comes first.

use std::fmt;

use hermes_ip::FlowCache;
use hermes_proto::ip::{Fragment, IpFlow, Packet, quoted_flow};
use hermes_rules::packets::OpenedBy;

/// Remembered verdicts on flows of one tunnel and one side: some 300 KB, allocated with the first.
#[doc(alias = "bound")]
const FLOWS: usize = 4_096;

/// The question to a policy: may this side open this flow?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowQuestion {
    /// The flow, from the side that opens it.
    pub flow: IpFlow,
    /// The side.
    pub opened_by: OpenedBy,
}

/// The answer of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowAnswer {
    /// Allowed.
    Allowed,
    /// Denied, for this reason.
    Denied(String),
    /// The policy was not asked, for this reason: it may not now, and the next packet asks again.
    NotAsked(String),
}

/// A policy, and its answers about the flows of one tunnel.
pub struct FlowPolicy {
    by_client: FlowCache<bool>,
    by_target: FlowCache<bool>,
    ask: Box<dyn FnMut(&FlowQuestion) -> FlowAnswer + Send>,
}

impl fmt::Debug for FlowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowPolicy").finish_non_exhaustive()
    }
}

impl FlowPolicy {
    /// A policy without remembered answers. `seed` is a number that peers do not know.
    pub fn new(seed: u64, ask: impl FnMut(&FlowQuestion) -> FlowAnswer + Send + 'static) -> Self {
        Self {
            by_client: FlowCache::new(FLOWS, seed),
            by_target: FlowCache::new(FLOWS, seed),
            ask: Box::new(ask),
        }
    }

    /// Whether a packet that this side sent may pass.
    ///
    /// # Errors
    /// The reason of the policy; `None` for a flow that was denied before, so that it is reported once.
    pub(super) fn permits(
        &mut self,
        packet: &Packet<'_>,
        sender: OpenedBy,
    ) -> Result<(), Option<String>> {
        // A later fragment is useless without the first one, which was judged.
        if packet.fragment() == Fragment::Later {
            return Ok(());
        }
        // An ICMP error passes where an answer to the quoted packet would.
        let flow = match packet.is_icmp_error() {
            true => quoted_flow(packet).ok_or(None)?.reversed(),
            false => packet.flow(),
        };
        let answered = flow.reversed();
        let may_answer = !packet.opens_tcp();

        match sender {
            OpenedBy::Client => {
                let is_answer = may_answer && self.by_target.known(&answered) == Some(true);
                match is_answer {
                    true => Ok(()),
                    false => self.opens(&flow, OpenedBy::Client),
                }
            }
            OpenedBy::Target => {
                if may_answer && self.by_target.known(&flow) != Some(true) {
                    // Most packets are answers, also in flows that were opened before this gate
                    // existed.
                    let is_answer = self.opens(&answered, OpenedBy::Client).is_ok();
                    if is_answer {
                        return Ok(());
                    }
                }
                self.opens(&flow, OpenedBy::Target)
            }
        }
    }

    /// Whether a side may open a flow.
    fn opens(&mut self, flow: &IpFlow, opened_by: OpenedBy) -> Result<(), Option<String>> {
        let verdicts = match opened_by {
            OpenedBy::Client => &mut self.by_client,
            OpenedBy::Target => &mut self.by_target,
        };
        match verdicts.known(flow) {
            Some(true) => return Ok(()),
            Some(false) => return Err(None),
            None => {}
        }

        let question = FlowQuestion {
            flow: *flow,
            opened_by,
        };
        match (self.ask)(&question) {
            FlowAnswer::Allowed => {
                verdicts.remember(flow, true);
                Ok(())
            }
            FlowAnswer::Denied(reason) => {
                verdicts.remember(flow, false);
                Err(Some(reason))
            }
            FlowAnswer::NotAsked(reason) => Err(Some(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A packet of UDP, or one of TCP with these flags.
    fn packet(ends: [[u8; 4]; 2], ports: [u16; 2], flags: Option<u8>) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(ports[0].to_be_bytes());
        payload.extend(ports[1].to_be_bytes());
        match flags {
            Some(flags) => {
                payload.resize(20, 0);
                payload[12] = 0x50;
                payload[13] = flags;
            }
            None => payload.extend([0, 8, 0, 0]),
        }
        let length = u8::try_from(20 + payload.len()).unwrap();
        let protocol = if flags.is_some() { 6 } else { 17 };
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(ends[0]);
        packet.extend(ends[1]);
        let sum = hermes_proto::ip::checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(payload);
        packet
    }

    const CLIENT: [u8; 4] = [10, 7, 0, 2];
    const HOST: [u8; 4] = [10, 0, 2, 2];
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;

    /// A policy that lets clients open port 443, and hosts port 5000; and the questions it was
    /// asked.
    fn policy() -> (FlowPolicy, Arc<Mutex<Vec<FlowQuestion>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let policy = FlowPolicy::new(7, move |question: &FlowQuestion| {
            noted.lock().push(*question);
            let port = question.flow.destination_port;
            let is_allowed = match question.opened_by {
                OpenedBy::Client => port == 443,
                OpenedBy::Target => port == 5000,
            };
            match is_allowed {
                true => FlowAnswer::Allowed,
                false => FlowAnswer::Denied("no".to_owned()),
            }
        });
        (policy, asked)
    }

    fn passes(policy: &mut FlowPolicy, bytes: &[u8], sender: OpenedBy) -> bool {
        let packet = Packet::parse(bytes).unwrap();
        policy.permits(&packet, sender).is_ok()
    }

    #[test]
    fn a_connection_is_one_question_whichever_packets_come() {
        let (mut policy, asked) = policy();
        let there = |flags| packet([CLIENT, HOST], [4000, 443], Some(flags));
        let back = |flags| packet([HOST, CLIENT], [443, 4000], Some(flags));
        for _ in 0..3 {
            assert!(passes(&mut policy, &there(SYN), OpenedBy::Client));
            assert!(passes(&mut policy, &back(SYN | ACK), OpenedBy::Target));
            assert!(passes(&mut policy, &there(ACK), OpenedBy::Client));
        }
        assert_eq!(asked.lock().len(), 1);

        // A new policy meets it in the middle, by either side.
        for first in [back(ACK), there(ACK)] {
            let (mut policy, asked) = self::policy();
            let sender = match first == back(ACK) {
                true => OpenedBy::Target,
                false => OpenedBy::Client,
            };
            assert!(passes(&mut policy, &first, sender));
            assert_eq!(asked.lock()[0].opened_by, OpenedBy::Client);
            assert_eq!(asked.lock()[0].flow.destination_port, 443);
        }

        // The host does not open one from there.
        assert!(!passes(&mut policy, &back(SYN), OpenedBy::Target));
    }

    #[test]
    fn what_a_client_may_not_open_does_not_pass_as_an_answer_that_no_one_asked_for() {
        let (mut policy, asked) = policy();
        // From a port that hosts may open.
        let there = packet([CLIENT, HOST], [5000, 53], None);
        assert!(!passes(&mut policy, &there, OpenedBy::Client));
        assert!(!passes(&mut policy, &there, OpenedBy::Client));
        assert_eq!(asked.lock().len(), 1, "once");

        let opening = packet([HOST, CLIENT], [53, 5000], None);
        assert!(passes(&mut policy, &opening, OpenedBy::Target));
        assert!(passes(&mut policy, &there, OpenedBy::Client));
    }

    #[test]
    fn what_was_not_asked_is_asked_again() {
        let mut asked = 0;
        let mut policy = FlowPolicy::new(7, move |_: &FlowQuestion| {
            asked += 1;
            match asked {
                1 => FlowAnswer::NotAsked("too many".to_owned()),
                _ => FlowAnswer::Allowed,
            }
        });
        let there = packet([CLIENT, HOST], [4000, 443], Some(SYN));
        assert!(!passes(&mut policy, &there, OpenedBy::Client));
        assert!(passes(&mut policy, &there, OpenedBy::Client));
    }
}
