//! What those try who are no members, or no longer.

use std::collections::BTreeSet;
use std::io;

use hermes_api::{Name, SealingKey};
use hermes_net::clock::unix_seconds;
use hermes_net::tls::{Clients, TlsServerOptions, TlsSource, server};
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn a_member_that_shows_ever_new_keys_for_its_secrets_is_written_down_rarely() {
    let authority = authority();
    joined(&authority, None, "yard", NOW);
    joined(&authority, None, "hub", NOW);
    let shown = |node: &str, byte: u8, now: u64| {
        let key = SealingKey::of([byte; 32]).unwrap().public();
        authority.keep_sealing_key(&name(node), key, now)
    };
    let kept = (1..=100).filter(|byte| shown("yard", *byte, NOW).is_ok());
    assert_eq!(kept.count(), 4);
    let last = SealingKey::of([4; 32]).unwrap().public();
    assert_eq!(
        authority
            .sealing_keys(&BTreeSet::from([name("yard")]))
            .unwrap()[&name("yard")],
        last
    );
    // Its own key counts on, and others have their turns.
    shown("yard", 4, NOW).unwrap();
    shown("hub", 1, NOW).unwrap();
    shown("yard", 5, NOW + 3600).unwrap();
}

/// A session of TLS goes on with the certificate that began it, which is judged each time as here.
#[test]
fn a_certificate_that_was_shown_before_is_judged_by_the_state_of_now() {
    let authority = authority();
    let laptop = joined(&authority, Some("alice"), "laptop", NOW);
    let yard = joined(&authority, None, "yard", NOW);
    let [laptop, yard] = [laptop, yard].map(|answer| chain(&answer));
    assert!(authority.member(&laptop, NOW).is_ok());
    authority
        .revoke(&Revoked::Node(name("laptop")), NOW)
        .unwrap();
    let judged = authority.member(&laptop, NOW);
    assert_eq!(judged, Err(NotMember::Revoked));

    // It has ended, its time to be renewed is over, and its authority is gone.
    assert!(authority.member(&yard, NOW + 8 * DAY).unwrap().expired);
    let judged = authority.member(&yard, NOW + 100 * DAY);
    assert_eq!(judged, Err(NotMember::TooOld));
    for day in (0..900).step_by(30) {
        authority.tend(NOW + day * DAY).unwrap();
    }
    let judged = authority.member(&yard, NOW);
    assert!(
        matches!(judged, Err(NotMember::Certificate(_))),
        "{judged:?}"
    );
}

#[test]
fn who_was_forgotten_does_not_become_the_next_node_of_the_name() {
    let authority = authority();
    let lasting = TokenRequest {
        lifetime_seconds: 30 * DAY,
        ..request(Some("alice"), None)
    };
    let token = authority.create_token(&lasting, NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let join = asks(&token, &key, "laptop");
    let first = authority.join(&join, &[], NOW).unwrap();
    authority.forget(&name("laptop"), NOW).unwrap();
    joined(&authority, Some("bob"), "laptop", NOW);

    let again = authority.join(&join, &[], NOW + 1);
    assert_eq!(
        again,
        Err(JoinRefused::NotMember(NotMember::Forgotten)),
        "by its token"
    );
    // Serials of certificates that have ended are not kept.
    for later in [NOW + DAY, NOW + 8 * DAY, NOW + 60 * DAY] {
        let renewed = authority.renew(&chain(&first), &csr(&key), later);
        assert_eq!(renewed, Err(JoinRefused::NotMember(NotMember::Forgotten)));
    }
}

#[test]
fn only_a_controller_of_the_overlay_passes_for_one() {
    let authority = authority();
    let pem = |authority: &Authority| {
        let identity = authority.controller_identity(NOW).unwrap();
        let chain = CertificateDer::pem_slice_iter(identity.certificates.as_bytes());
        chain.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let own = pem(&authority);
    assert_eq!(authority.controller(&own, NOW), Ok(()));
    assert!(
        authority.controller(&own, NOW + 8 * DAY).is_err(),
        "it has ended"
    );
    assert!(authority.controller(&[], NOW).is_err());

    let member = joined(&authority, None, "edge", NOW);
    assert!(authority.controller(&chain(&member), NOW).is_err());
    // The same names, by an authority of its own.
    let stranger = super::authority();
    assert!(authority.controller(&pem(&stranger), NOW).is_err());
}

#[test]
fn a_node_that_repeats_itself_gets_the_same_certificate() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let join = asks(&token, &key, "edge");
    let first = authority.join(&join, &[], NOW).unwrap();
    for second in 0..100 {
        assert_eq!(authority.join(&join, &[], NOW + second), Ok(first.clone()));
    }
    let renewed = authority
        .renew(&chain(&first), &csr(&key), NOW + 4 * DAY)
        .unwrap();
    assert_ne!(renewed.certificates, first.certificates);
    let other = KeyPair::generate().unwrap();
    let another = authority.renew(&chain(&first), &csr(&other), NOW + 4 * DAY);
    assert_ne!(another.unwrap().certificates, renewed.certificates);
}

#[test]
fn tokens_are_listed_without_secrets_and_end_when_they_are_deleted() {
    let authority = authority();
    let token = authority
        .create_token(&request(None, Some("hub")), NOW)
        .unwrap();
    let listed = authority.tokens(NOW).unwrap();
    assert_eq!(listed[0].id, token.id);
    assert!(!format!("{listed:?}").contains(&token.secret));
    assert!(authority.tokens(NOW + 3600).unwrap().is_empty());

    assert_eq!(authority.delete_token(&token.id, NOW), Ok(true));
    assert_eq!(authority.delete_token(&token.id, NOW), Ok(false));
    let key = KeyPair::generate().unwrap();
    let join = authority.join(&asks(&token, &key, ""), &[], NOW);
    assert_eq!(join, Err(JoinRefused::Unknown));
}

#[test]
fn a_user_who_is_revoked_while_devices_join_has_none_afterwards() {
    for _ in 0..20 {
        let authority = authority();
        let joins: Vec<_> = (0..6)
            .map(|_| {
                let token = authority.create_token(&request(Some("alice"), None), NOW);
                asks(&token.unwrap(), &KeyPair::generate().unwrap(), "laptop")
            })
            .collect();
        std::thread::scope(|scope| {
            for join in &joins {
                scope.spawn(|| drop(authority.join(join, &[], NOW)));
            }
            scope.spawn(|| {
                authority
                    .revoke(&Revoked::User(name("alice")), NOW)
                    .unwrap()
            });
        });
        let members = authority.members().unwrap();
        assert!(members.iter().all(|member| member.revoked.is_some()));
        assert!(authority.tokens(NOW).unwrap().is_empty());
    }
}

#[test]
fn many_nodes_that_want_one_name_all_get_their_own() {
    let authority = authority();
    let wanted = "a".repeat(63);
    let names: BTreeSet<_> = (0..200)
        .map(|_| joined(&authority, None, &wanted, NOW).node)
        .collect();
    assert_eq!(names.len(), 200);
}

#[test]
fn a_key_that_the_requester_does_not_have_is_refused() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let (own, stolen) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (own_point, stolen_point) = (own.public_key_raw(), stolen.public_key_raw());
    let mut join = asks(&token, &own, "edge");
    let at = join
        .request
        .windows(own_point.len())
        .position(|window| window == own_point)
        .unwrap();
    join.request[at..at + stolen_point.len()].copy_from_slice(stolen_point);
    let refused = authority.join(&join, &[], NOW);
    assert!(
        matches!(refused, Err(JoinRefused::Request(_))),
        "{refused:?}"
    );
    assert!(authority.members().unwrap().is_empty());
}

#[test]
fn a_request_for_an_authority_makes_none() {
    let authority = authority();
    let token = authority.create_token(&request(None, None), NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut asked = CertificateParams::default();
    asked.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    asked.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let mut join = asks(&token, &key, "edge");
    if let Ok(request) = asked.serialize_request(&key) {
        join.request = request.der().to_vec();
    }
    let Ok(answer) = authority.join(&join, &[], NOW) else {
        return;
    };
    let leaf = &chain(&answer)[0];
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf).unwrap();
    assert!(!leaf.is_ca());
    assert!(!leaf.key_usage().unwrap().unwrap().value.key_cert_sign());
}

#[test]
fn a_token_of_an_earlier_generation_still_leads_to_the_controller() {
    let authority = authority();
    let first = authority.generations().unwrap().remove(0);
    let mut now = NOW;
    while authority.issuing(now).unwrap().number == 1 {
        now += DAY;
        authority.tend(now).unwrap();
    }
    let shown = authority.controller_identity(now).unwrap().certificates;
    let shown: Vec<_> = CertificateDer::pem_slice_iter(shown.as_bytes())
        .map(Result::unwrap)
        .collect();
    let pinned: Vec<_> = shown
        .iter()
        .filter(|one| Hash::of(one) == first.pin().unwrap())
        .collect();
    let anchor = anchor_from_trusted_cert(pinned[0]).unwrap();
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
    EndEntityCert::try_from(&shown[0])
        .unwrap()
        .verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &[anchor],
            &shown[1..],
            at,
            KeyUsage::server_auth(),
            None,
            None,
        )
        .unwrap();
}

/// A member's certificates and key.
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

fn shown(authority: &Authority, node: &str, now: u64) -> Shown {
    let token = authority
        .create_token(&request(Some("alice"), None), now)
        .unwrap();
    let key = KeyPair::generate().unwrap();
    let answer = authority.join(&asks(&token, &key, node), &[], now).unwrap();
    Shown {
        chain: chain(&answer),
        key,
    }
}

/// A handshake of TLS as a listener of a node makes it, in memory.
fn handshake(authority: &Authority, client: &Shown, now: u64) -> Result<(), String> {
    let identity = authority.controller_identity(now).unwrap();
    let authorities = authority.authorities_pem().unwrap();
    let revoked = authority.revoked_pem(now).unwrap();
    let lists = [TlsSource::Inline(&revoked)];
    // Lists count while there are clients of them.
    let clients = Clients::read(TlsSource::Inline(&authorities), &[], &lists).unwrap();
    let accepting = server(TlsServerOptions {
        certificate: TlsSource::Inline(&identity.certificates),
        key: TlsSource::Inline(&identity.key),
        client_authorities: Some(TlsSource::Inline(&authorities)),
        client_domains: &[],
        client_revocation_lists: &lists,
        client_required: true,
        alpn: &[],
    })
    .unwrap();

    let mut roots = RootCertStore::empty();
    let known = CertificateDer::pem_slice_iter(authorities.as_bytes()).map(Result::unwrap);
    roots.add_parsable_certificates(known);
    let key = PrivateKeyDer::try_from(client.key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let connecting = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(client.chain.clone(), key)
        .unwrap();
    let target = ServerName::try_from("controller.demo.test").unwrap();
    let mut connecting = ClientConnection::new(Arc::new(connecting), target).unwrap();
    let mut accepting = ServerConnection::new(accepting).unwrap();
    while connecting.is_handshaking() || accepting.is_handshaking() {
        let mut bytes = Vec::new();
        connecting.write_tls(&mut bytes).unwrap();
        accepting.read_tls(&mut io::Cursor::new(bytes)).unwrap();
        let accepted = accepting.process_new_packets();
        accepted.map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        accepting.write_tls(&mut bytes).unwrap();
        connecting.read_tls(&mut io::Cursor::new(bytes)).unwrap();
        let connected = connecting.process_new_packets();
        connected.map_err(|error| error.to_string())?;
    }
    clients.believe(&client.chain, now)
}

#[test]
fn nodes_refuse_the_revoked_one_in_the_handshake_and_no_other() {
    let now = unix_seconds();
    let store = Arc::new(MemoryStore::default());
    let authority =
        Authority::open_or_make(store, name("demo"), "demo.test".to_owned(), now).unwrap();
    let (laptop, phone) = (
        shown(&authority, "laptop", now),
        shown(&authority, "phone", now),
    );
    let gone = shown(&authority, "gone", now);
    for member in [&laptop, &phone, &gone] {
        handshake(&authority, member, now).unwrap();
    }
    authority
        .revoke(&Revoked::Node(name("laptop")), now)
        .unwrap();
    authority.forget(&name("gone"), now).unwrap();
    handshake(&authority, &phone, now).unwrap();
    for refused in [&laptop, &gone] {
        let error = handshake(&authority, refused, now).unwrap_err();
        assert!(error.contains("Revoked"), "{error}");
    }
}

#[test]
fn lists_count_in_all_generations_and_a_week_without_a_controller() {
    let authority = authority();
    let mut now = NOW;
    while authority.issuing(now).unwrap().number == 1 {
        now += DAY;
        authority.tend(now).unwrap();
    }
    let before = shown(&authority, "before", now - DAY);
    let laptop = shown(&authority, "laptop", now);
    authority
        .revoke(&Revoked::Node(name("laptop")), now)
        .unwrap();
    let authorities = authority.authorities_pem().unwrap();
    let revoked = authority.revoked_pem(now).unwrap();
    let lists = [TlsSource::Inline(&revoked)];
    let clients = Clients::read(TlsSource::Inline(&authorities), &[], &lists).unwrap();
    // A certificate counts for 7 days, of which a node that renews in time has more than 3 left.
    for days in 0..6 {
        clients.believe(&before.chain, now + days * DAY).unwrap();
        clients
            .believe(&laptop.chain, now + days * DAY)
            .unwrap_err();
    }
}

#[test]
fn nothing_of_a_request_is_read_before_its_token_is_known() {
    let authority = authority();
    let guessed = JoinRequest {
        token_id: "guess".to_owned(),
        token_secret: "guess".to_owned(),
        request: vec![0; 64],
        ..JoinRequest::default()
    };
    let refused = authority.join(&guessed, &[], NOW);
    assert_eq!(refused, Err(JoinRefused::Unknown));
}
