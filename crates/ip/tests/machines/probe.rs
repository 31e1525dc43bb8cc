//! Whether a tunnel carries the 1,280 bytes of IPv6.

use std::time::{Duration, Instant};

use hermes_ip::{
    Accepts, InnerMtu, IpRole, IpSession, MtuProbe, PROBE_TRIES, PacketScope, ProbeState,
    RouterAddresses, SessionSettings, Verdict,
};
use hermes_proto::ip::{IcmpLimiter, Packet};

fn session(role: IpRole) -> IpSession {
    IpSession::new(SessionSettings {
        role,
        scope: PacketScope::any(),
        routers: RouterAddresses::default(),
        mtu: InnerMtu::STREAM,
        accepts_addresses: Accepts::All,
        accepts_routes: Accepts::All,
    })
}

#[test]
fn the_other_end_answers_before_anyone_has_an_address() {
    let now = Instant::now();
    for [asks, answers] in [
        [IpRole::Client, IpRole::Proxy],
        [IpRole::Proxy, IpRole::Client],
    ] {
        let mut probe = MtuProbe::new(asks, None, 7);
        let question = probe.poll_packet(now).unwrap();
        assert_eq!(question.len(), 1280);
        assert_eq!(probe.poll_packet(now), None);

        let session = session(answers);
        let filter = session.filter();
        let verdict = filter.check_from_peer(&question, &mut IcmpLimiter::default(), now);
        let Verdict::Answer(answer) = verdict else {
            panic!("{verdict:?}")
        };
        assert!(Packet::parse(&answer).is_ok());

        let mut other = MtuProbe::new(asks, None, 8);
        assert!(!other.handle_packet(&answer));
        assert!(!probe.handle_packet(&question));
        assert!(probe.handle_packet(&answer));
        assert_eq!(probe.state(), ProbeState::Proven);
        assert_eq!(probe.poll_timeout(), None);
    }
}

#[test]
fn silence_is_an_answer_after_some_questions() {
    let mut now = Instant::now();
    let mut probe = MtuProbe::new(IpRole::Client, Some("2001:db8::1".parse().unwrap()), 7);
    for _ in 0..PROBE_TRIES {
        assert!(probe.poll_packet(now).is_some());
        assert_eq!(probe.poll_packet(now), None);
        now = probe.poll_timeout().unwrap();
    }
    assert_eq!(probe.state(), ProbeState::Asking);
    assert_eq!(probe.poll_packet(now), None);
    assert_eq!(probe.state(), ProbeState::Failed);
    assert_eq!(probe.poll_timeout(), None);
}

#[test]
fn questions_are_not_answered_without_end() {
    let now = Instant::now();
    let question = MtuProbe::new(IpRole::Client, None, 7)
        .poll_packet(now)
        .unwrap();
    let session = session(IpRole::Proxy);
    let mut limiter = IcmpLimiter::default();
    let mut answers = |now| {
        let verdicts = (0..1000).map(|_| {
            session
                .filter()
                .check_from_peer(&question, &mut limiter, now)
        });
        verdicts
            .filter(|verdict| matches!(verdict, Verdict::Answer(_)))
            .count()
    };
    assert!(answers(now) < 100);
    assert!(answers(now + Duration::from_secs(10)) > 0);
}
