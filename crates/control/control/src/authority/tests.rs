//! Members, tokens and revocations on a virtual clock.

use std::sync::Arc;

use hermes_api::{Hash, JoinAnswer, JoinRequest, Token, VerifyingKey};
use hermes_net::tls::{Clients, TlsSource, TrustDomain};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::DAY;
use super::*;
use crate::store::memory::MemoryStore;

mod attacks;

const NOW: u64 = 1_800_000_000;

fn authority() -> Authority {
    let store = Arc::new(MemoryStore::default());
    let overlay = "demo".parse().unwrap();
    Authority::open_or_make(store, overlay, "demo.test".to_owned(), NOW).unwrap()
}

fn request(user: Option<&str>, name: Option<&str>) -> TokenRequest {
    TokenRequest {
        user: user.map(|user| user.parse().unwrap()),
        name: name.map(|name| name.parse().unwrap()),
        lifetime_seconds: 3600,
    }
}

fn csr(key: &KeyPair) -> Vec<u8> {
    CertificateParams::default()
        .serialize_request(key)
        .unwrap()
        .der()
        .to_vec()
}

fn asks(token: &Token, key: &KeyPair, name: &str) -> JoinRequest {
    JoinRequest {
        token_id: token.id.clone(),
        token_secret: token.secret.clone(),
        name: name.to_owned(),
        request: csr(key),
        binary: vec![7; 32],
    }
}

fn chain(answer: &JoinAnswer) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(answer.certificates.as_bytes())
        .map(Result::unwrap)
        .collect()
}

fn joined(authority: &Authority, user: Option<&str>, name: &str, now: u64) -> JoinAnswer {
    let token = authority.create_token(&request(user, None), now).unwrap();
    let key = KeyPair::generate().unwrap();
    authority.join(&asks(&token, &key, name), &[], now).unwrap()
}

#[test]
fn a_device_becomes_a_member_whose_certificate_is_its_own() {
    let authority = authority();
    let answer = joined(&authority, Some("alice"), "laptop", NOW);
    assert_eq!(
        (answer.node.as_str(), answer.user.as_str()),
        ("laptop", "alice")
    );
    assert!(VerifyingKey::from_text(&answer.statement_key).is_ok());
    let member = authority.member(&chain(&answer), NOW).unwrap();
    assert_eq!(member.node.as_str(), "laptop");
    assert!(!member.expired);

    let other = self::authority();
    assert!(matches!(
        other.member(&chain(&answer), NOW),
        Err(NotMember::Certificate(_))
    ));
}

#[test]
fn the_first_key_owns_the_token_and_may_repeat_the_join() {
    let authority = authority();
    let token = authority
        .create_token(&request(Some("alice"), None), NOW)
        .unwrap();
    let key = KeyPair::generate().unwrap();
    for _ in 0..3 {
        let answer = authority
            .join(&asks(&token, &key, "laptop"), &[], NOW)
            .unwrap();
        assert_eq!(answer.node, "laptop");
    }
    let other = KeyPair::generate().unwrap();
    assert_eq!(
        authority.join(&asks(&token, &other, "laptop"), &[], NOW),
        Err(JoinRefused::OtherKey)
    );
    assert_eq!(authority.members().unwrap().len(), 1);
}

#[test]
fn of_two_keys_at_once_one_wins() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let keys: Vec<_> = (0..8).map(|_| KeyPair::generate().unwrap()).collect();
    let wins: usize = std::thread::scope(|scope| {
        let joins: Vec<_> = keys
            .iter()
            .map(|key| scope.spawn(|| authority.join(&asks(&token, key, "n"), &[], NOW).is_ok()))
            .collect();
        joins
            .into_iter()
            .filter(|_| true)
            .map(|join| usize::from(join.join().unwrap()))
            .sum()
    });
    assert_eq!((wins, authority.members().unwrap().len()), (1, 1));
}

#[test]
fn wrong_expired_and_unknown_tokens_are_refused_alike() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let wrong = Token {
        secret: "no".to_owned(),
        ..token.clone()
    };
    let unknown = Token {
        id: "no".to_owned(),
        ..token.clone()
    };
    for bad in [&wrong, &unknown] {
        assert_eq!(
            authority.join(&asks(bad, &key, "n"), &[], NOW),
            Err(JoinRefused::Unknown)
        );
    }
    assert_eq!(
        authority.join(&asks(&token, &key, "n"), &[], NOW + 3600),
        Err(JoinRefused::Unknown)
    );
    assert!(
        authority
            .create_token(&request(None, Some("controller")), NOW)
            .is_err()
    );
}

#[test]
fn names_of_others_are_not_taken() {
    let authority = authority();
    let names: Vec<_> = (0..3)
        .map(|_| joined(&authority, None, "edge", NOW).node)
        .collect();
    assert_eq!(names, ["edge", "edge-2", "edge-3"]);
    assert_eq!(
        joined(&authority, None, "controller", NOW).node,
        "controller-2"
    );
    let token = authority
        .create_token(&request(None, Some("edge")), NOW)
        .unwrap();
    let key = KeyPair::generate().unwrap();
    let refused = authority.join(&asks(&token, &key, "x"), &[], NOW);
    assert!(matches!(refused, Err(JoinRefused::Taken(_))), "{refused:?}");
}

#[test]
fn a_request_says_only_a_key() {
    let authority = authority();
    let token = authority
        .create_token(&request(Some("alice"), None), NOW)
        .unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["controller.demo.test".to_owned()];
    let mut asked = CertificateParams::new(names).unwrap();
    asked.subject_alt_names.push(rcgen::SanType::URI(
        "spiffe://demo.test/controller".try_into().unwrap(),
    ));
    let join = JoinRequest {
        request: asked.serialize_request(&key).unwrap().der().to_vec(),
        ..asks(&token, &key, "laptop")
    };
    let answer = authority.join(&join, &[], NOW).unwrap();
    assert_eq!(
        authority
            .member(&chain(&answer), NOW)
            .unwrap()
            .node
            .as_str(),
        "laptop"
    );
    let long = JoinRequest {
        request: vec![0x30; 10_000],
        ..join.clone()
    };
    assert!(matches!(
        authority.join(&long, &[], NOW),
        Err(JoinRefused::Request(_))
    ));
    for index in 0..join.request.len() {
        let mut broken = join.clone();
        broken.request[index] ^= 0x55;
        // A change that the signature does not cover leaves the key, and so the member, as they are.
        let joined = authority.join(&broken, &[], NOW);
        assert!(
            joined.is_ok_and(|joined| joined.node == "laptop")
                || authority.members().unwrap().len() == 1,
            "byte {index}"
        );
    }
}

#[test]
fn a_program_that_is_not_allowed_is_refused_first() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let allowed = [Hash::of(b"another program")];
    assert_eq!(
        authority.join(&asks(&token, &key, "n"), &allowed, NOW),
        Err(JoinRefused::Binary)
    );
}

#[test]
fn a_node_that_was_off_for_60_days_renews_itself_unless_it_was_revoked() {
    let authority = authority();
    let answer = joined(&authority, Some("alice"), "laptop", NOW);
    let later = NOW + 60 * DAY;
    let member = authority.member(&chain(&answer), later).unwrap();
    assert!(member.expired);
    let key = KeyPair::generate().unwrap();
    let renewed = authority.renew(&chain(&answer), &csr(&key), later).unwrap();
    assert!(!authority.member(&chain(&renewed), later).unwrap().expired);
    let too_late = NOW + 100 * DAY;
    assert_eq!(
        authority.member(&chain(&answer), too_late),
        Err(NotMember::TooOld)
    );

    authority
        .revoke(&Revoked::User("alice".parse().unwrap()), later)
        .unwrap();
    assert_eq!(
        authority.member(&chain(&renewed), later),
        Err(NotMember::Revoked)
    );
    assert!(
        authority
            .renew(&chain(&renewed), &csr(&key), later)
            .is_err()
    );
}

/// Whether another node would open a link with this one.
fn is_believed(authority: &Authority, answer: &JoinAnswer, now: u64) -> bool {
    let authorities = authority.authorities_pem().unwrap();
    let clients = Clients::read(TlsSource::Inline(&authorities), &[], &[]).unwrap();
    clients.believe(&chain(answer), now).is_ok()
}

#[test]
fn without_a_controller_others_believe_a_node_for_the_grace_and_no_longer() {
    let authority = authority();
    let answer = joined(&authority, None, "edge", NOW);
    let week = NOW + 7 * DAY;
    assert!(!authority.member(&chain(&answer), week - 1).unwrap().expired);
    assert!(authority.member(&chain(&answer), week).unwrap().expired);
    assert!(is_believed(&authority, &answer, week + 30 * DAY - 1));
    assert!(!is_believed(&authority, &answer, week + 30 * DAY + 1));
    // A node whose certificate was renewed meanwhile has its links as before.
    let key = KeyPair::generate().unwrap();
    let late = week + 29 * DAY;
    let renewed = authority.renew(&chain(&answer), &csr(&key), late).unwrap();
    assert!(is_believed(&authority, &renewed, week + 31 * DAY));

    authority.set_grace(Some(std::time::Duration::ZERO));
    let strict = joined(&authority, None, "relay", NOW);
    assert!(!is_believed(&authority, &strict, week + 1));
    assert!(
        authority
            .renew(&chain(&strict), &csr(&key), week + 1)
            .is_ok()
    );
}

#[test]
fn a_forgotten_name_is_free_and_its_certificate_worth_nothing() {
    let authority = authority();
    let first = joined(&authority, Some("alice"), "laptop", NOW);
    authority.forget(&"laptop".parse().unwrap(), NOW).unwrap();
    assert_eq!(
        authority.member(&chain(&first), NOW),
        Err(NotMember::Forgotten)
    );
    let second = joined(&authority, Some("bob"), "laptop", NOW);
    assert_eq!(second.node, "laptop");
    assert!(authority.member(&chain(&second), NOW).is_ok());
    assert_eq!(
        authority.member(&chain(&first), NOW),
        Err(NotMember::Forgotten)
    );
}

#[test]
fn lists_of_the_revoked_stay_the_same_text_until_something_changes() {
    let authority = authority();
    joined(&authority, Some("alice"), "laptop", NOW);
    let empty = authority.revoked_pem(NOW).unwrap();
    assert_eq!(authority.revoked_pem(NOW + DAY).unwrap(), empty);
    authority
        .revoke(&Revoked::Node("laptop".parse().unwrap()), NOW)
        .unwrap();
    let one = authority.revoked_pem(NOW).unwrap();
    assert_ne!(one, empty);
    assert_eq!(authority.revoked_pem(NOW + 1).unwrap(), one);
    // Until the end of the grace others would believe it.
    assert_eq!(authority.revoked_pem(NOW + 29 * DAY).unwrap(), one);
    assert_ne!(authority.revoked_pem(NOW + 38 * DAY).unwrap(), one);
}

#[test]
fn the_authority_is_replaced_thrice_and_members_stay_members() {
    let authority = authority();
    let mut answer = joined(&authority, None, "edge", NOW);
    let mut now = NOW;
    let first = authority.authorities_pem().unwrap();
    let mut generations = 1;
    while generations < 4 {
        now += 4 * DAY;
        authority.tend(now).unwrap();
        let key = KeyPair::generate().unwrap();
        assert!(!authority.member(&chain(&answer), now).unwrap().expired);
        answer = authority.renew(&chain(&answer), &csr(&key), now).unwrap();
        authority.revoked_pem(now).unwrap();
        generations = authority.generations().unwrap().last().unwrap().number;
        assert!(authority.generations().unwrap().len() <= 3);
    }
    assert!(!authority.authorities_pem().unwrap().contains(&first));
}

#[test]
fn open_tokens_have_a_bound_and_those_that_end_make_room() {
    let authority = authority();
    for _ in 0..tokens::MOST {
        authority.create_token(&request(None, None), NOW).unwrap();
    }
    let refused = authority.create_token(&request(None, None), NOW);
    assert_eq!(refused.err(), Some(NoToken::TooMany));
    assert!(
        authority
            .create_token(&request(None, None), NOW + 3600)
            .is_ok()
    );
}

/// Whether a node of another overlay believes a member by a bundle of this one.
fn is_believed_abroad(bundle: &str, answer: &JoinAnswer, now: u64) -> bool {
    let own = authority().authorities_pem().unwrap();
    let domain = TrustDomain {
        name: "demo.test",
        authorities: TlsSource::Inline(bundle),
    };
    let clients = Clients::read(TlsSource::Inline(&own), &[domain], &[]).unwrap();
    clients.believe(&chain(answer), now).is_ok()
}

#[test]
fn a_bundle_of_another_overlay_outlasts_the_change_of_its_authority() {
    let authority = authority();
    let old = authority.authorities_pem().unwrap();
    let mut answer = joined(&authority, None, "hub", NOW);
    let mut now = NOW;
    let renewed = |answer: &JoinAnswer, now| {
        let key = KeyPair::generate().unwrap();
        authority.renew(&chain(answer), &csr(&key), now).unwrap()
    };
    while authority.generations().unwrap().len() < 2 {
        now += 4 * DAY;
        authority.tend(now).unwrap();
        answer = renewed(&answer, now);
    }
    let new = authority.authorities_pem().unwrap();
    assert!(new.len() > old.len(), "both generations are in it");

    // For two weeks either bundle will do.
    let later = now + 13 * DAY;
    let answer = renewed(&answer, later);
    assert!(is_believed_abroad(&old, &answer, later));
    assert!(is_believed_abroad(&new, &answer, later));
    let later = now + 15 * DAY;
    let answer = renewed(&answer, later);
    assert!(!is_believed_abroad(&old, &answer, later));
    assert!(is_believed_abroad(&new, &answer, later));
}
