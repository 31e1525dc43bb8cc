//! Channels of a key: signatures that are forged, stale or repeated at a rate, keys that are odd, and very many channels of one user.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hermes_tests::raw::Raw;

use super::{Asking, beside_and_leave, get, post};

/// Bytes that the signatures of these tests take while they are remembered.
const SIGNATURES: u64 = 256 * 1024;

/// Someone with a key.
struct Owner {
    pair: Ed25519KeyPair,
}

impl Owner {
    fn new() -> Self {
        Self {
            pair: Ed25519KeyPair::generate().unwrap(),
        }
    }

    fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn name(&self) -> String {
        name(self.public())
    }

    /// The path of a channel that is this one's alone.
    fn path(&self) -> String {
        format!("/c/{}", self.name())
    }

    /// The fields of a message to its own channel.
    fn message(&self, content: &str, created: u64, nonce: &str) -> String {
        let digest = content_digest(content);
        let parts = [
            ("@method", "POST"),
            ("@path", &self.path()),
            ("content-digest", &digest),
        ];
        let signature = self.signature(&parts, created, nonce);
        format!("Content-Digest: {digest}\r\n{signature}")
    }

    /// The fields of a list of approved senders for its own channel.
    fn approval(&self, friend: &str, nonce: &str) -> String {
        let list = format!("keys=(\"{friend}\"), until={}", now() + 600);
        let parts = [
            ("@method", "POST"),
            ("@path", &self.path()),
            ("hermes-approve", &list),
        ];
        let signature = self.signature(&parts, now(), nonce);
        format!("Hermes-Approve: {list}\r\n{signature}")
    }

    /// The two fields of a signature over these components (RFC 9421).
    fn signature(&self, parts: &[(&str, &str)], created: u64, nonce: &str) -> String {
        let names: Vec<_> = parts
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let parameters = format!(
            "({});created={created};nonce=\"{nonce}\";keyid=\"{}\";alg=\"ed25519\";tag=\"hermes-relay\"",
            names.join(" "),
            URL_SAFE_NO_PAD.encode(self.public())
        );
        let lines = parts
            .iter()
            .map(|(name, value)| format!("\"{name}\": {value}\n"));
        let base = format!(
            "{}\"@signature-params\": {parameters}",
            lines.collect::<String>()
        );
        let signature = STANDARD.encode(self.pair.sign(base.as_bytes()).as_ref());
        format!("Signature-Input: relay={parameters}\r\nSignature: relay=:{signature}:\r\n")
    }
}

/// The name of a key.
fn name(public: &[u8]) -> String {
    let mut info = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".to_vec();
    info.extend_from_slice(public);
    let hash = digest(&SHA256, &info);
    format!("ni:sha-256;{}", URL_SAFE_NO_PAD.encode(hash.as_ref()))
}

fn content_digest(content: &str) -> String {
    let hash = digest(&SHA256, content.as_bytes());
    format!("sha-256=:{}:", STANDARD.encode(hash.as_ref()))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

#[test]
fn signatures_that_are_forged_stale_or_repeated_are_refused_at_a_rate() {
    beside_and_leave(SIGNATURES, |node, bystanders| {
        let owner = Owner::new();
        let path = owner.path();
        let mut its = Raw::connect(node.address("web"));
        let genuine = post(
            &path,
            &owner.message("seen by all", now(), "first"),
            "seen by all",
        );
        its.send(&genuine);
        assert_eq!(its.response().0.status(), 200);

        let foreign = Owner::new();
        let mut asking = Asking::new(node);
        for round in 0..200 {
            let nonce = format!("nonce{round}");
            let good = owner.message("x", now(), &nonce);
            let forged = good.replace("Signature: relay=:", "Signature: relay=:AAAA");
            let status = asking.status(post(&path, &forged, "x"));
            assert!(matches!(status, 400 | 403), "{status}");
            // Of the right length, and of another message: only arithmetic tells.
            assert_eq!(asking.status(post(&path, &good, "y")), 403);
            let stale = owner.message("x", now() - 120, &nonce);
            assert_eq!(asking.status(post(&path, &stale, "x")), 403);
            let other = foreign.message("x", now(), &nonce);
            assert_eq!(asking.status(post(&path, &other, "x")), 404);
            assert_eq!(asking.status(genuine.clone()), 403);
            if round == 100 {
                bystanders.are_served();
            }
        }
        // None of it has spoilt a signature of the owner's, not even one that was seen with another content.
        let last = owner.message("x", now(), "nonce199");
        its.send(post(&path, &last, "x"));
        assert_eq!(its.response().0.status(), 200);
    });
}

#[test]
fn keys_and_signatures_that_are_odd_are_refused() {
    /// Encodings of points whose signatures anyone can make: the neutral one, those of order 2 and 4, and the neutral one written otherwise.
    const WEAK: [&str; 4] = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    beside_and_leave(SIGNATURES, |node, bystanders| {
        let mut asking = Asking::new(node);
        let digest = content_digest("x");
        for weak in WEAK {
            let bytes: Vec<u8> = (0..32)
                .map(|at| u8::from_str_radix(&weak[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let key = URL_SAFE_NO_PAD.encode(&bytes);
            let mut signature = vec![0; 64];
            signature[0] = 1;
            let signature = STANDARD.encode(&signature);
            let path = format!("/c/{}", name(&bytes));
            let fields = format!(
                "Content-Digest: {digest}\r\nSignature-Input: relay=(\"@method\" \"@path\" \"content-digest\");created={};nonce=\"a\";keyid=\"{key}\";alg=\"ed25519\";tag=\"hermes-relay\"\r\nSignature: relay=:{signature}:\r\n",
                now()
            );
            let status = asking.status(post(&path, &fields, "x"));
            assert!(matches!(status, 400 | 403 | 404), "{weak}: {status}");
        }

        let owner = Owner::new();
        let path = owner.path();
        let good = owner.message("x", now(), "good");
        let odd = [
            good.replace("keyid=\"", "keyid=\"AAAA"),
            good.replace(";created=", ";created=-"),
            good.replace(";created=", ";created=99999"),
            good.replace("(\"@method\"", "(\"@method\" \"@method\""),
            good.replace("(\"@method\"", &format!("({}", "\"@path\" ".repeat(500))),
            good.replace(";nonce=", &format!("{};nonce=", ";a=1".repeat(1000))),
            good.replace("nonce=\"good", &format!("nonce=\"{}", "n".repeat(65))),
            good.replace("relay=", &format!("{}relay=", "r=1, ".repeat(8000))),
            good.replace("alg=\"ed25519\"", "alg=\"none\""),
            good.replace("tag=\"hermes-relay\"", "tag=\"other\""),
            good.replace("Signature: relay=:", "Signature: other=:"),
        ];
        for round in 0..20 {
            for fields in &odd {
                let status = asking.status(post(&path, fields, "x"));
                assert!(
                    matches!(status, 400 | 403 | 404 | 431),
                    "{status}: {fields}"
                );
            }
            if round == 10 {
                bystanders.are_served();
            }
        }
        assert_eq!(asking.status(post(&path, &good, "x")), 200);
    });
}

#[test]
fn very_many_channels_of_one_users_keys_leave_room_for_others() {
    /// Lists that one user may have (docs/relay.md).
    const LISTS: usize = 100;

    beside_and_leave(SIGNATURES, |node, bystanders| {
        let mut asking = Asking::new(node);
        for number in 0..1000_u32 {
            let path = format!("/c/{}", name(&number.to_be_bytes().repeat(8)));
            assert_eq!(asking.status(post(&path, "", "x")), 404);
            let receiver = path.replace("/c/", "/c/to/");
            assert_eq!(asking.status(get(&receiver, "")), 404);
        }
        bystanders.are_served();

        let friend = Owner::new().name();
        let mut taken = 0;
        for number in 0..LISTS + 20 {
            let owner = Owner::new();
            let list = post(&owner.path(), &owner.approval(&friend, "a"), "");
            let status = asking.status(list);
            taken += usize::from(status == 204);
            assert!(matches!(status, 204 | 429), "{number}: {status}");
        }
        assert_eq!(taken, LISTS);
        // One of another address has room for its own.
        let owner = Owner::new();
        let mut its = Raw::connect(node.address("web"));
        its.send(post(&owner.path(), &owner.approval(&friend, "a"), ""));
        assert_eq!(its.head().status(), 204);
        bystanders.are_served();
    });
}
