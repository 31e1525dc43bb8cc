//! Listeners that ask, clients that show this and that.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hermes_config::model::{Auth, AuthMethods, AuthMode, Basic, Bearer, DataSource, Listener};
use hermes_http::fields::Fields;
use hermes_net::{CertificateNames, PeerAddress, StreamInfo, TlsPeer};
use http::header::{
    AUTHORIZATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderValue, StatusCode};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::challenge::{Refusal, Schemes};
use crate::{Authenticator, Challenge, Identity, LEEWAY};

const NOW: u64 = 1_800_000_000;

/// The issuer's keys and their key set in a file.
struct Issuer {
    folder: TempDir,
    keys: Vec<(Algorithm, EncodingKey)>,
}

impl Issuer {
    fn new() -> Self {
        let pair = |algorithm| {
            rcgen::KeyPair::generate_for(algorithm)
                .unwrap()
                .serialize_der()
        };

        let rsa = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let rsa =
            aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der>::as_der(&rsa).unwrap();

        // The PKCS #1 key begins behind the 26 bytes with which PKCS #8 introduces a 2048-bit RSA key.
        let rsa = &rsa.as_ref()[26..];
        let keys = vec![
            (
                Algorithm::ES256,
                EncodingKey::from_ec_der(&pair(&rcgen::PKCS_ECDSA_P256_SHA256)),
            ),
            (
                Algorithm::ES384,
                EncodingKey::from_ec_der(&pair(&rcgen::PKCS_ECDSA_P384_SHA384)),
            ),
            (
                Algorithm::EdDSA,
                EncodingKey::from_ed_der(&pair(&rcgen::PKCS_ED25519)),
            ),
            (Algorithm::RS256, EncodingKey::from_rsa_der(rsa)),
        ];

        Self {
            folder: tempfile::tempdir().unwrap(),
            keys,
        }
    }

    /// The public key of one algorithm.
    fn jwk(&self, algorithm: Algorithm) -> Value {
        let (_, key) = self
            .keys
            .iter()
            .find(|(known, _)| *known == algorithm)
            .unwrap();
        let mut jwk = match algorithm {
            Algorithm::EdDSA => ed25519_jwk(key),
            _ => serde_json::to_value(Jwk::from_encoding_key(key, algorithm).unwrap()).unwrap(),
        };

        jwk["kid"] = format!("{algorithm:?}").into();
        jwk
    }

    fn write(&self, name: &str, content: &str) -> DataSource {
        let file = self.folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        file.into()
    }

    fn methods(&self) -> Bearer {
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|(algorithm, _)| self.jwk(*algorithm))
            .collect();
        Bearer {
            jwks_file: self.write("jwks.json", &json!({ "keys": keys }).to_string()),
            issuer: "https://issuer.example".to_owned(),
            audience: "overlay".to_owned(),
            user_claim: None,
            groups_claim: None,
        }
    }

    fn token(&self, algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
        let (_, key) = self
            .keys
            .iter()
            .find(|(known, _)| *known == algorithm)
            .unwrap();
        let header = Header {
            alg: algorithm,
            kid: kid.map(str::to_owned),
            ..Header::default()
        };

        jsonwebtoken::encode(&header, claims, key).unwrap()
    }
}

fn ed25519_jwk(key: &EncodingKey) -> Value {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    let pair = Ed25519KeyPair::from_pkcs8(key.as_bytes()).unwrap();
    json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()) })
}

/// Claims that are right, with some replaced; `null` removes one.
fn claims(changes: Value) -> Value {
    let mut claims = json!({ "iss": "https://issuer.example", "aud": "overlay", "sub": "alice", "exp": NOW + 600 });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }

    claims
}

fn listener(auth: Option<Auth>) -> Listener {
    serde_json::from_value(json!({ "http": "127.0.0.1:1", "auth": auth })).unwrap()
}

fn build(methods: AuthMethods) -> Authenticator {
    Authenticator::build(
        &listener(Some(Auth::Methods(methods))),
        "listeners.web",
        None,
    )
    .unwrap()
}

/// Users alice and bob, with the passwords `wonder` and `builder`.
fn users(issuer: &Issuer) -> Basic {
    let line = |user, password| format!("{user}:{}\n", bcrypt::hash(password, 4).unwrap());
    let content = format!(
        "# users\n\n{}{}",
        line("alice", "wonder"),
        line("bob", "builder")
    );

    Basic {
        file: issuer.write("users", &content),
        realm: Some("the \"lab\"".to_owned()),
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn stream(certificate: Option<CertificateNames>) -> StreamInfo {
    let tls = Some(Box::new(TlsPeer {
        certificate,
        ..TlsPeer::default()
    }));
    StreamInfo {
        peer: PeerAddress::Unix { uid: None },
        local: None,
        tls,
        origin: None,
    }
}

fn named(common_name: &str) -> CertificateNames {
    CertificateNames {
        common_name: Some(common_name.to_owned()),
        ..CertificateNames::default()
    }
}

/// Authenticates with one `Proxy-Authorization` value.
async fn ask(authenticator: &Authenticator, shown: Option<&str>) -> Result<Identity, Challenge> {
    ask_at(authenticator, shown, NOW).await
}

async fn ask_at(
    authenticator: &Authenticator,
    shown: Option<&str>,
    now: u64,
) -> Result<Identity, Challenge> {
    let mut fields = Fields::new();
    fields.extend(shown.map(|shown| (PROXY_AUTHORIZATION, HeaderValue::from_str(shown).unwrap())));
    let result = authenticator
        .authenticate(&mut fields, &stream(None), false, now)
        .await;
    assert!(fields.is_empty(), "credentials go no further");
    result
}

/// The user, or why there is none.
fn outcome(result: Result<Identity, Challenge>) -> String {
    match result {
        Ok(identity) => format!(
            "{} {}",
            identity.proof.scheme(),
            identity.user.unwrap_or_default()
        ),
        Err(challenge) => challenge.reason,
    }
}

fn lines(challenge: &Challenge, name: &http::HeaderName) -> Vec<String> {
    challenge
        .fields
        .values(name)
        .map(|value| value.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn no_one_is_asked_and_credentials_are_removed_all_the_same() {
    for auth in [None, Some(Auth::Word(AuthMode::None))] {
        let authenticator = Authenticator::build(&listener(auth), "listeners.web", None).unwrap();

        assert!(!authenticator.asks());
        let shown = basic("alice", "wrong");
        assert_eq!(outcome(ask(&authenticator, Some(&shown)).await), "none ");
    }
}

#[tokio::test]
async fn passwords_are_checked() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        basic: Some(users(&issuer)),
        ..AuthMethods::default()
    });
    let refused = "user and password do not match";

    let cases = [
        (basic("alice", "wonder"), "basic alice"),
        (basic("bob", "builder"), "basic bob"),
        (basic("alice", "builder"), refused),
        (basic("alice", "Wonder"), refused),
        (basic("alice", ""), refused),
        (basic("carol", "wonder"), refused),
        (basic("alice", &"x".repeat(73)), refused),
        (
            "Bearer abc".to_owned(),
            "bearer authentication is not accepted here",
        ),
        (
            "Digest abc".to_owned(),
            "other authentication is not accepted here",
        ),
        ("Basic x".to_owned(), "the basic credentials are not base64"),
    ];

    // Twice: the second time, right passwords are remembered.
    for (shown, expected) in cases.iter().chain(&cases) {
        assert_eq!(
            outcome(ask(&authenticator, Some(shown)).await),
            *expected,
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_missing_credential_is_challenged_for_each_scheme() {
    let issuer = Issuer::new();
    let methods = AuthMethods {
        basic: Some(users(&issuer)),
        bearer: Some(issuer.methods()),
        mtls: true,
        optional: false,
    };

    let authenticator = build(methods);
    let challenge = ask(&authenticator, None).await.unwrap_err();
    assert_eq!(
        (challenge.status, challenge.scheme),
        (StatusCode::PROXY_AUTHENTICATION_REQUIRED, "none")
    );
    let expected = [
        r#"Basic realm="the \"lab\"", charset="UTF-8""#,
        r#"Bearer realm="the \"lab\"""#,
    ];
    assert_eq!(lines(&challenge, &PROXY_AUTHENTICATE), expected);

    let challenge = ask(&authenticator, Some("Bearer x.y.z")).await.unwrap_err();
    let description = "the header of the token cannot be used";
    let wrong = format!(
        r#"Bearer realm="the \"lab\"", error="invalid_token", error_description="{description}""#
    );
    assert_eq!(
        lines(&challenge, &PROXY_AUTHENTICATE),
        [expected[0], &wrong]
    );
    assert_eq!(challenge.scheme, "bearer");
}

#[tokio::test]
async fn a_gateway_reads_authorization_and_only_if_it_asks() {
    let issuer = Issuer::new();
    let asking = build(AuthMethods {
        basic: Some(users(&issuer)),
        ..AuthMethods::default()
    });
    let shown =
        |name, value: &str| Fields::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
    let right = basic("alice", "wonder");

    let mut fields = shown(AUTHORIZATION, &right);
    fields.insert(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic x"));
    let identity = asking
        .authenticate(&mut fields, &stream(None), true, NOW)
        .await;
    assert_eq!(
        (outcome(identity).as_str(), fields.len()),
        ("basic alice", 0)
    );

    let mut fields = shown(PROXY_AUTHORIZATION, &right);
    let challenge = asking
        .authenticate(&mut fields, &stream(None), true, NOW)
        .await
        .unwrap_err();
    assert_eq!(
        (challenge.status, fields.len()),
        (StatusCode::UNAUTHORIZED, 0)
    );
    assert_eq!(lines(&challenge, &WWW_AUTHENTICATE).len(), 1);
    assert!(!challenge.fields.contains_key(PROXY_AUTHENTICATE));

    for (gateway, authenticator) in [(true, &Authenticator::default()), (false, &asking)] {
        let mut fields = shown(AUTHORIZATION, &right);
        let _ = authenticator
            .authenticate(&mut fields, &stream(None), gateway, NOW)
            .await;
        assert!(fields.contains_key(AUTHORIZATION), "it is for the origin");
    }
}

#[tokio::test]
async fn two_lines_of_credentials_are_refused() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        basic: Some(users(&issuer)),
        ..AuthMethods::default()
    });
    let value = HeaderValue::from_str(&basic("alice", "wonder")).unwrap();
    let mut fields = Fields::new();
    fields.append(PROXY_AUTHORIZATION, value.clone());
    fields.append(PROXY_AUTHORIZATION, value);
    let result = authenticator
        .authenticate(&mut fields, &stream(None), false, NOW)
        .await;
    assert_eq!(outcome(result), "more than one line of credentials");
    assert!(fields.is_empty());
}

#[tokio::test]
async fn a_certificate_names_the_user() {
    let mtls = listener(Some(Auth::Word(AuthMode::Mtls)));
    let authenticator = Authenticator::build(&mtls, "listeners.web", None).unwrap();
    let cases = [
        (Some(named("Alice Adams")), "mtls Alice Adams"),
        (
            Some(named(" alice")),
            "the certificate's name cannot be a user",
        ),
        (
            Some(named("al\u{ef}ce")),
            "the certificate's name cannot be a user",
        ),
        (
            Some(named("a\r\nb")),
            "the certificate's name cannot be a user",
        ),
        (
            Some(named(&"a".repeat(257))),
            "the certificate's name cannot be a user",
        ),
        (
            Some(CertificateNames::default()),
            "the certificate holds no name",
        ),
        (None, "no credentials were shown"),
    ];

    for (certificate, expected) in cases {
        // A token for a later hop is no credential here.
        let mut fields =
            Fields::from_iter([(PROXY_AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
        let result = authenticator
            .authenticate(&mut fields, &stream(certificate.clone()), false, NOW)
            .await;
        if let Err(challenge) = &result {
            assert_eq!(
                (challenge.status, challenge.fields.len()),
                (StatusCode::FORBIDDEN, 0)
            );
        }

        if let Ok(identity) = &result {
            assert_eq!(identity.certificate, certificate);
        }
        assert_eq!(outcome(result), expected);
    }
}

#[tokio::test]
async fn a_user_of_a_certificate_ends_with_it_to_the_second() {
    let mtls = listener(Some(Auth::Word(AuthMode::Mtls)));
    let authenticator = Authenticator::build(&mtls, "listeners.web", None).unwrap();
    let certificate = CertificateNames {
        not_after: Some(NOW + 600),
        ..named("alice")
    };

    let identity = authenticator
        .authenticate(&mut Fields::new(), &stream(Some(certificate)), false, NOW)
        .await;

    assert_eq!(
        identity.unwrap().expires.map(|end| end + LEEWAY),
        Some(NOW + 600)
    );
}

#[tokio::test]
async fn a_wrong_credential_is_refused_even_with_a_certificate() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        basic: Some(users(&issuer)),
        mtls: true,
        ..AuthMethods::default()
    });
    let source = stream(Some(named("bob")));

    let cases = [
        (Some(basic("alice", "wonder")), "basic alice"),
        (
            Some(basic("alice", "wrong")),
            "user and password do not match",
        ),
        (None, "mtls bob"),
    ];

    for (shown, expected) in cases {
        let mut fields = Fields::new();
        fields.extend(
            shown.map(|shown| (PROXY_AUTHORIZATION, HeaderValue::from_str(&shown).unwrap())),
        );
        assert_eq!(
            outcome(
                authenticator
                    .authenticate(&mut fields, &source, false, NOW)
                    .await
            ),
            expected
        );
    }
}

#[test]
fn the_word_of_an_ingress_counts_where_nothing_else_is_required() {
    let built = |keys: Value| {
        let listener = serde_json::from_value(keys).unwrap();
        Authenticator::build(&listener, "listeners.door", None).unwrap()
    };
    let with = |ingress: &str| built(json!({ "tcp": "127.0.0.1:1", "ingress": ingress }));
    let source = stream(None);

    let open = with("socks");
    let alice = open.believe_ingress("alice", &source).unwrap();
    assert_eq!(alice.user.as_deref(), Some("alice"));
    assert_eq!(alice.proof.scheme(), "ingress");
    for strange in ["", " alice", "al\nice", "\u{e4}"] {
        let refused = open.believe_ingress(strange, &source).unwrap_err();
        assert_eq!(
            (refused.status, refused.scheme),
            (StatusCode::FORBIDDEN, "ingress")
        );
    }

    let strict = built(json!({ "http": "127.0.0.1:1", "auth": "mtls" }));
    assert!(strict.believe_ingress("alice", &source).is_err());
    let plain = built(json!({ "tcp": "127.0.0.1:1", "target": "a:1" }));
    assert!(plain.believe_ingress("alice", &source).is_err());

    let still = |authenticator: &Authenticator| {
        authenticator.still_accepts(&alice.proof, Some("alice"), NOW)
    };
    assert_eq!(still(&open), Ok(()));
    assert!(still(&strict).is_err());
    assert!(still(&with("other")).is_err());
    assert!(still(&plain).is_err());
}

#[tokio::test]
async fn tokens_of_every_algorithm_are_verified() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        bearer: Some(issuer.methods()),
        ..AuthMethods::default()
    });

    for (algorithm, _) in &issuer.keys {
        for kid in [None, Some(format!("{algorithm:?}"))] {
            let token = issuer.token(*algorithm, kid.as_deref(), &claims(json!({})));
            let identity = ask(&authenticator, Some(&format!("bearer {token}")))
                .await
                .unwrap();
            assert_eq!(
                (identity.user.as_deref(), identity.proof.scheme()),
                (Some("alice"), "bearer"),
                "{algorithm:?}"
            );
            assert_eq!(identity.expires, Some(NOW + 600));
        }
    }
}

#[tokio::test]
async fn claims_are_checked() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        bearer: Some(issuer.methods()),
        ..AuthMethods::default()
    });
    let wrong_issuer = "the token is not from the expected issuer";
    let wrong_audience = "the token is not for this audience";
    let no_user = "the token does not name a user";
    let expired = "the token has expired";

    let cases = [
        (json!({}), "bearer alice"),
        (json!({ "aud": ["other", "overlay"] }), "bearer alice"),
        (json!({ "aud": ["other"] }), wrong_audience),
        (json!({ "aud": null }), wrong_audience),
        (json!({ "aud": { "overlay": 1 } }), wrong_audience),
        (json!({ "iss": "https://issuer.example/" }), wrong_issuer),
        (json!({ "iss": ["https://issuer.example"] }), wrong_issuer),
        (json!({ "iss": null }), wrong_issuer),
        (
            json!({ "exp": null }),
            "the token does not say when it expires",
        ),
        (
            json!({ "exp": "2030" }),
            "the token does not say when it expires",
        ),
        (
            json!({ "exp": -1 }),
            "the token does not say when it expires",
        ),
        (json!({ "exp": NOW - 29 }), "bearer alice"),
        (json!({ "exp": NOW - 30 }), expired),
        (json!({ "exp": NOW as f64 + 0.5 }), "bearer alice"),
        (json!({ "nbf": NOW + 30 }), "bearer alice"),
        (json!({ "nbf": NOW + 31 }), "the token is not valid yet"),
        (json!({ "nbf": "soon" }), "the token's nbf is not a time"),
        (json!({ "sub": null }), no_user),
        (json!({ "sub": "" }), no_user),
        (json!({ "sub": "a b" }), no_user),
        (json!({ "sub": "a\r\nuser: root" }), no_user),
        (json!({ "sub": "a".repeat(257) }), no_user),
        (json!({ "sub": 7 }), no_user),
    ];

    for (changes, expected) in cases {
        let token = issuer.token(Algorithm::ES256, None, &claims(changes.clone()));
        assert_eq!(
            outcome(ask(&authenticator, Some(&format!("Bearer {token}"))).await),
            expected,
            "{changes}"
        );
    }
}

#[tokio::test]
async fn a_remembered_token_expires_like_any_other() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        bearer: Some(issuer.methods()),
        ..AuthMethods::default()
    });
    let shown = format!(
        "Bearer {}",
        issuer.token(Algorithm::ES256, None, &claims(json!({})))
    );

    for (now, expected) in [
        (NOW, "bearer alice"),
        (NOW + 629, "bearer alice"),
        (NOW + 630, "the token has expired"),
    ] {
        assert_eq!(
            outcome(ask_at(&authenticator, Some(&shown), now).await),
            expected,
            "{now}"
        );
    }
}

#[tokio::test]
async fn another_claim_can_name_the_user() {
    let issuer = Issuer::new();
    let bearer = Bearer {
        user_claim: Some("email".to_owned()),
        ..issuer.methods()
    };

    let authenticator = build(AuthMethods {
        bearer: Some(bearer),
        ..AuthMethods::default()
    });
    let token = issuer.token(
        Algorithm::ES256,
        None,
        &claims(json!({ "email": "a@example.com" })),
    );
    assert_eq!(
        outcome(ask(&authenticator, Some(&format!("Bearer {token}"))).await),
        "bearer a@example.com"
    );
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let issuer = Issuer::new();
    let stranger = Issuer::new();
    let authenticator = build(AuthMethods {
        bearer: Some(issuer.methods()),
        ..AuthMethods::default()
    });
    let right = issuer.token(Algorithm::ES256, None, &claims(json!({})));
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let payload = part(claims(json!({ "sub": "root" })));
    let signature = right.rsplit('.').next().unwrap();

    // The public key as the secret of HMAC: the classic confusion of algorithms.
    let secret = EncodingKey::from_secret(
        issuer.jwk(Algorithm::RS256)["n"]
            .as_str()
            .unwrap()
            .as_bytes(),
    );

    let confused =
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(json!({})), &secret).unwrap();
    let bad_header = "the header of the token cannot be used";
    let wrong = "the signature of the token is wrong";

    let cases = [
        (
            format!("{}.{payload}.", part(json!({ "alg": "none" }))),
            bad_header,
        ),
        (
            format!("{}.{payload}.", part(json!({ "alg": "None" }))),
            bad_header,
        ),
        (
            format!("{}.{payload}.{signature}", part(json!({ "alg": "ES256" }))),
            wrong,
        ),
        (
            format!("{}.{payload}.", part(json!({ "alg": "ES256" }))),
            wrong,
        ),
        (
            format!("{}.{payload}.{signature}", part(json!({ "alg": "RS256" }))),
            wrong,
        ),
        (
            format!(
                "{}.{payload}.{signature}",
                part(json!({ "alg": "ES256", "crit": ["b64"], "b64": false }))
            ),
            "the token demands extensions that are not known here",
        ),
        (confused, "the token is not signed with a public key"),
        (
            stranger.token(Algorithm::ES256, None, &claims(json!({}))),
            wrong,
        ),
        (
            issuer.token(Algorithm::ES256, Some("RS256"), &claims(json!({}))),
            "the key of the token is not known",
        ),
        (
            issuer.token(Algorithm::ES256, Some("new"), &claims(json!({}))),
            "the key of the token is not known",
        ),
        (
            format!("{right}."),
            "the token is not a signed JSON Web Token",
        ),
        (format!("{right}x"), wrong),
        (String::new(), "the token is not a signed JSON Web Token"),
        (
            format!("{payload}.{signature}"),
            "the token is not a signed JSON Web Token",
        ),
    ];

    for (token, expected) in cases {
        assert_eq!(
            outcome(ask(&authenticator, Some(&format!("Bearer {token}"))).await),
            expected,
            "{token}"
        );
    }
}

#[test]
fn busy_is_not_the_fault_of_the_credential() {
    let schemes = Schemes {
        basic: Some("lab"),
        bearer: false,
    };

    let challenge = Challenge::new(Refusal::Busy, &schemes, false);
    assert_eq!(
        (challenge.status, challenge.reason.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "busy")
    );
    assert_eq!(lines(&challenge, &RETRY_AFTER), ["1"]);
}

/// The errors of a configuration that cannot be built, without the folder's name.
fn errors(issuer: &Issuer, methods: AuthMethods) -> Vec<String> {
    let errors = Authenticator::build(
        &listener(Some(Auth::Methods(methods))),
        "listeners.web",
        None,
    )
    .unwrap_err();
    let folder = format!("{}/", issuer.folder.path().display());
    errors
        .iter()
        .map(|error| format!("{}: {}", error.path, error.reason).replace(&folder, ""))
        .collect()
}

#[test]
fn every_bad_line_of_users_is_reported() {
    let issuer = Issuer::new();
    let good = bcrypt::hash("x", 4).unwrap();
    let dear = format!("$2b$31${}", &good[7..]);
    let cut = &good[..50];
    let long = "u".repeat(257);
    let content = format!(
        "alice:{good}\nalice:{good}\nbob\ncarol:secret\nd d:{good}\neve:{dear}\nf:{cut}\n{long}:{good}\n"
    );
    let file = issuer.write("users", &content);

    let found = errors(
        &issuer,
        AuthMethods {
            basic: Some(Basic { file, realm: None }),
            ..AuthMethods::default()
        },
    );

    let expected = [
        "users:2: user alice stands there twice",
        "users:3: there is no colon between user and hash",
        "users:4: the hash of carol is not bcrypt ($2a$, $2b$ or $2y$)",
        "users:5: the user is not 1 to 256 visible ASCII characters",
        "users:6: the cost 31 of eve's hash is not between 4 and 16",
        "users:7: the hash of f is not whole",
        "users:8: the user is not 1 to 256 visible ASCII characters",
    ];

    assert_eq!(
        found,
        expected.map(|line| format!("listeners.web.auth.basic.file: {line}"))
    );
    assert!(!found.join("\n").contains("secret"));
}

#[test]
fn a_bad_line_of_users_locks_out_no_one_else() {
    let issuer = Issuer::new();
    let good = bcrypt::hash("x", 4).unwrap();
    let file = issuer.write("users", &format!("bob\nalice:{good}\ncarol:secret\n"));
    let basic = Some(Basic { file, realm: None });
    let methods = AuthMethods {
        basic,
        ..AuthMethods::default()
    };
    assert!(build(methods).asks());
}

#[test]
fn a_mistake_in_a_key_set_does_not_show_its_values() {
    let issuer = Issuer::new();
    for content in [
        r#""sesame""#,
        r#"{ "keys": "sesame" }"#,
        r#"{ "keys": ["sesame"] }"#,
        r#"{ "keys": [{ "kty": "sesame" }] }"#,
        r#"{ "keys": [{ "kty": "RSA", "n": ["sesame"], "e": "AQAB" }] }"#,
        "sesame",
    ] {
        let bearer = Bearer {
            jwks_file: issuer.write("bad.json", content),
            ..issuer.methods()
        };
        let methods = AuthMethods {
            bearer: Some(bearer),
            ..AuthMethods::default()
        };
        let found = errors(&issuer, methods).join("\n");
        assert!(found.contains("jwks_file: bad.json: "), "{found}");
        assert!(!found.contains("sesame"), "{found}");
    }
}

#[test]
fn unusable_files_are_reported_together() {
    let issuer = Issuer::new();
    let basic = |content: &str| Basic {
        file: issuer.write("users", content),
        realm: None,
    };

    let bearer = |content: &str| Bearer {
        jwks_file: issuer.write("bad.json", content),
        ..issuer.methods()
    };

    let both = AuthMethods {
        basic: Some(basic("# none\n")),
        bearer: Some(bearer("{}")),
        mtls: false,
        optional: false,
    };

    let found = errors(&issuer, both);
    assert_eq!(
        found[0],
        "listeners.web.auth.basic.file: users names no user"
    );
    assert!(
        found[1]
            .starts_with("listeners.web.auth.bearer.jwks_file: bad.json: not a JSON Web Key Set: "),
        "{found:?}"
    );

    let many = "x\n".repeat(30);
    let found = errors(
        &issuer,
        AuthMethods {
            basic: Some(basic(&many)),
            ..AuthMethods::default()
        },
    );

    assert_eq!(found.len(), 21);
    assert_eq!(
        found[20],
        "listeners.web.auth.basic.file: users: 10 more bad lines"
    );

    let large = "#".repeat((1 << 20) + 1);
    let found = errors(
        &issuer,
        AuthMethods {
            basic: Some(basic(&large)),
            ..AuthMethods::default()
        },
    );

    assert_eq!(
        found,
        ["listeners.web.auth.basic.file: users: larger than 1048576 bytes"]
    );

    let realm = Basic {
        realm: Some("a\r\nb".to_owned()),
        ..basic("")
    };

    let found = errors(
        &issuer,
        AuthMethods {
            basic: Some(realm),
            ..AuthMethods::default()
        },
    );

    assert_eq!(
        found,
        ["listeners.web.auth.basic.realm: a realm is at most 128 printable ASCII characters"]
    );

    let missing = Bearer {
        jwks_file: issuer.folder.path().join("none").into(),
        ..issuer.methods()
    };

    let found = errors(
        &issuer,
        AuthMethods {
            bearer: Some(missing),
            ..AuthMethods::default()
        },
    );

    assert!(found[0].contains("jwks_file: none: "), "{found:?}");
}

#[test]
fn key_sets_hold_public_signature_keys_only() {
    let issuer = Issuer::new();
    let none = "no key can verify a signature (RSA, P-256, P-384 or Ed25519)";
    let with = |algorithm, name: &str, value: Value| {
        let mut jwk = issuer.jwk(algorithm);
        jwk[name] = value;
        jwk
    };

    let cases = [
        (vec![], Some(none)),
        (
            vec![json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256" })],
            Some("keys[0]: a symmetric key: anyone who verifies with it can sign with it as well"),
        ),
        (
            vec![with(Algorithm::RS256, "use", "enc".into())],
            Some(none),
        ),
        (
            vec![with(Algorithm::RS256, "alg", "RSA-OAEP".into())],
            Some(none),
        ),
        (
            vec![with(Algorithm::RS256, "n", "AQAB".into())],
            Some("keys[0]: an RSA key of less than 2048 bits"),
        ),
        (
            vec![with(Algorithm::ES256, "x", Value::Null)],
            Some("keys[0]: a broken EC key"),
        ),
        (vec![json!({ "kty": "future" })], Some(none)),
        // RFC 7517, 5: an unknown key beside a good one is ignored.
        (
            vec![
                json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }),
                json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA" }),
                json!({ "kty": "RSA", "e": "AQAB" }),
                json!({ "kty": 7 }),
                with(Algorithm::RS256, "n", "AQAB".into()),
                with(Algorithm::ES256, "x", Value::Null),
                issuer.jwk(Algorithm::ES256),
            ],
            None,
        ),
        (
            vec![
                json!({ "kty": "oct", "k": "c2VjcmV0" }),
                issuer.jwk(Algorithm::ES256),
            ],
            Some("keys[0]: a symmetric key: anyone who verifies with it can sign with it as well"),
        ),
        (
            vec![json!({ "kty": "future" }), issuer.jwk(Algorithm::ES256)],
            None,
        ),
        (vec![with(Algorithm::ES256, "use", "sig".into())], None),
        (
            vec![with(Algorithm::ES256, "key_ops", json!(["verify"]))],
            None,
        ),
        (
            vec![with(Algorithm::ES256, "key_ops", json!(["encrypt"]))],
            Some(none),
        ),
        (
            vec![issuer.jwk(Algorithm::ES256); 65],
            Some("more than 64 keys"),
        ),
    ];

    for (keys, expected) in cases {
        let jwks_file = issuer.write("keys.json", &json!({ "keys": keys }).to_string());
        let methods = AuthMethods {
            bearer: Some(Bearer {
                jwks_file,
                ..issuer.methods()
            }),
            ..AuthMethods::default()
        };

        match expected {
            None => assert!(build(methods).asks()),
            Some(reason) => {
                let expected = format!("listeners.web.auth.bearer.jwks_file: keys.json: {reason}");
                assert_eq!(errors(&issuer, methods), [expected]);
            }
        }
    }
}

#[test]
fn debug_output_tells_no_secret() {
    let issuer = Issuer::new();
    let authenticator = build(AuthMethods {
        basic: Some(users(&issuer)),
        bearer: Some(issuer.methods()),
        mtls: true,
        optional: false,
    });
    let text = format!("{authenticator:?}");
    assert!(
        !text.contains("$2b$") && text.contains("https://issuer.example"),
        "{text}"
    );
}
