//! Parts that no node should take.

use hermes_api::{MAX_PART, SigningKey, parts};

use super::*;

fn key() -> SigningKey {
    SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
}

fn offer(key: &SigningKey, number: u64, document: Hash) -> Offer {
    let statement = Statement {
        overlay: "demo".parse().unwrap(),
        node: "edge".parse().unwrap(),
        revision: Revision { epoch: 1, number },
        parts: BTreeMap::from([(parts::DOCUMENT.to_owned(), document)]),
        confirm_seconds: None,
    };
    let signed = statement.sign(key);
    Offer {
        statement: signed.bytes,
        signature: signed.signature,
        ..Offer::default()
    }
}

/// The reasons of refusals among effects.
fn refusals(effects: &[Effect]) -> Vec<String> {
    let words = effects.iter().filter_map(|effect| match effect {
        Effect::Say(AgentMessage {
            content: Some(agent_message::Content::Acknowledgement(word)),
        }) if word.progress() == Progress::Refused => Some(word),
        _ => None,
    });
    words
        .flat_map(|word| word.mistakes.iter().map(|mistake| mistake.reason.clone()))
        .collect()
}

#[test]
fn a_part_that_is_too_large_is_refused_by_name_and_the_next_statement_is_followed() {
    let key = key();
    let name = |text: &str| text.parse().unwrap();
    let mut machine = Machine::new(name("demo"), name("edge"), key.verifying(), None, None);
    let endless = Hash::of(b"a part without end");
    let begun = machine.offered(offer(&key, 1, endless), &|_| false);
    assert!(refusals(&begun).is_empty() && !begun.is_empty());

    let mut refused = Vec::new();
    for _ in 0..=MAX_BLOB / MAX_PART {
        let piece = BlobPart {
            hash: endless.as_bytes().to_vec(),
            bytes: vec![7; MAX_PART],
            last: false,
        };
        refused = refusals(&machine.part(piece));
        if !refused.is_empty() {
            break;
        }
    }
    assert!(
        refused.len() == 1 && refused[0].contains("longer than"),
        "{refused:?}"
    );

    let document = b"{}".to_vec();
    let hash = Hash::of(&document);
    machine.offered(offer(&key, 2, hash), &|_| false);
    let effects = machine.part(BlobPart {
        hash: hash.as_bytes().to_vec(),
        bytes: document,
        last: true,
    });
    let keeps =
        |effect: &Effect| matches!(effect, Effect::Keep { parts, .. } if parts.contains_key(&hash));
    assert!(effects.iter().any(keeps), "{effects:?}");
}
