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
        assert!(probe.poll_packet(now).unwrap().len() < 100);
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

/// Asks as often as it may, over a tunnel that loses packets longer than this. Returns the time of
/// the next probe.
fn asked_in_vain(probe: &mut MtuProbe, carries: usize) -> Option<Instant> {
    let session = session(IpRole::Proxy);
    let mut now = Instant::now();
    for _ in 0..PROBE_TRIES {
        while let Some(question) = probe.poll_packet(now) {
            let filter = session.filter();
            let verdict = filter.check_from_peer(&question, &mut IcmpLimiter::default(), now);
            if let Verdict::Answer(answer) = verdict
                && answer.len() <= carries
            {
                assert!(probe.handle_packet(&answer));
            }
        }
        now = probe.poll_timeout().unwrap();
    }
    assert_eq!(probe.state(), ProbeState::Asking);
    assert_eq!(probe.poll_packet(now), None);
    probe.poll_timeout()
}

#[test]
fn silence_says_nothing_of_what_is_carried() {
    let mut probe = MtuProbe::new(IpRole::Client, Some("2001:db8::1".parse().unwrap()), 7);
    asked_in_vain(&mut probe, 0);
    assert_eq!(probe.state(), ProbeState::Unanswered);
}

#[test]
fn an_end_that_was_silent_is_asked_anew_once_it_answers() {
    let mut probe = MtuProbe::new(IpRole::Client, Some("2001:db8::1".parse().unwrap()), 7);
    for carries in [1279, 1280] {
        let again = asked_in_vain(&mut probe, 0).unwrap();
        assert_eq!(probe.state(), ProbeState::Unanswered);
        let proxy = session(IpRole::Proxy);
        let filter = proxy.filter();
        while let Some(question) = probe.poll_packet(again) {
            let verdict = filter.check_from_peer(&question, &mut IcmpLimiter::default(), again);
            if let Verdict::Answer(answer) = verdict
                && answer.len() <= carries
            {
                assert!(probe.handle_packet(&answer));
                break;
            }
        }
        let narrow = carries == 1279;
        let state = if narrow {
            ProbeState::Asking
        } else {
            ProbeState::Proven
        };
        assert_eq!(probe.state(), state);
    }
}

#[test]
fn a_tunnel_that_answers_short_questions_alone_is_too_narrow_until_it_answers_a_long_one() {
    let mut probe = MtuProbe::new(IpRole::Client, None, 7);
    let again = asked_in_vain(&mut probe, 1279).unwrap();
    assert_eq!(probe.state(), ProbeState::TooNarrow);

    let question = probe.poll_packet(again).unwrap();
    assert_eq!((question.len(), probe.poll_packet(again)), (1280, None));
    let proxy = session(IpRole::Proxy);
    let filter = proxy.filter();
    let Verdict::Answer(answer) =
        filter.check_from_peer(&question, &mut IcmpLimiter::default(), again)
    else {
        panic!("no answer")
    };
    assert!(probe.handle_packet(&answer));
    assert_eq!(probe.state(), ProbeState::Proven);
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
