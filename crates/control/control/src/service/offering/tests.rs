//! A node that asks for too much, and says too much.

use std::collections::BTreeMap;

use super::*;
use crate::resources::{Source, Tree, read};
use crate::service::fleet::Fleet;
use crate::service::in_force::compiled;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn tree() -> Tree {
    let text = "apiVersion: hermes/v1
kind: Node
metadata: { name: one }
spec: { listen: 127.0.0.1:8443, reach: [127.0.0.1:8443], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: two }
spec: { listen: 127.0.0.1:8444, reach: [127.0.0.1:8444] }
";
    let source = Source {
        name: "nodes.yaml".as_ref(),
        text,
    };
    read(&[source]).unwrap()
}

fn published() -> Arc<Published> {
    let tree = tree();
    let documents = compiled(&tree, "demo.test", None).unwrap();
    Arc::new(Published {
        revision: Revision::FIRST,
        tree: Arc::new(tree),
        documents,
        authorities: Part::new(b"authorities".to_vec()),
        revoked: Part::new(b"revoked".to_vec()),
        endorsements: Arc::default(),
        confirm: None,
    })
}

/// The side of the controller towards `one` after its first offer, and the hash of that.
fn offered(published: &Arc<Published>) -> (Offering, Hash) {
    let mut offering = Offering::new(name("demo"), name("one"), None, None);
    let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
    let target = Fleet::new(published.clone()).target(&name("one"));
    let Some(Content::Offer(offer)) = offering.follow(target, &key).say else {
        panic!("nothing is offered");
    };
    (offering, Hash::of(&offer.statement))
}

fn parts_of(published: &Published, node: &str) -> BTreeMap<String, Hash> {
    let recipient = published.recipient(&name(node), None);
    published.parts(&recipient).unwrap()
}

fn asked(hashes: impl IntoIterator<Item = Hash>) -> Vec<Vec<u8>> {
    let hashes = hashes.into_iter();
    hashes.map(|hash| hash.as_bytes().to_vec()).collect()
}

#[test]
fn a_node_gets_parts_of_its_own_document_only() {
    let published = published();
    let (mut offering, _) = offered(&published);
    let own = parts_of(&published, "one");
    let others = parts_of(&published, "two");
    let strange: Vec<Hash> = others
        .values()
        .filter(|hash| !own.values().any(|own| own == *hash))
        .copied()
        .collect();
    assert!(!strange.is_empty());
    assert!(offering.parts(&asked(strange)).is_empty());
    assert!(offering.parts(&[Vec::new(), vec![0; 31]]).is_empty());
    let got = offering.parts(&asked(own.values().copied()));
    assert_eq!(got.len(), own.len());
}

#[test]
fn a_part_is_sent_rarely_however_often_it_is_asked_for() {
    let published = published();
    let (mut offering, _) = offered(&published);
    let own = parts_of(&published, "one");
    let often = asked(own.values().copied().cycle().take(1900));
    assert_eq!(offering.parts(&often).len(), own.len());
    let further: usize = (0..1000).map(|_| offering.parts(&often).len()).sum();
    assert_eq!(further, own.len() * 15);
}

#[test]
fn words_of_a_node_are_short_and_steer_no_terminal() {
    let published = published();
    let (mut offering, statement) = offered(&published);
    let evil = format!("\u{1b}[2J\r\n\u{9b}31m\u{202e}forged{}", "x".repeat(60_000));
    let mistake = Mistake {
        path: evil.clone(),
        reason: evil.clone(),
    };
    let word = Acknowledgement {
        statement: statement.as_bytes().to_vec(),
        progress: Progress::Refused.into(),
        mistakes: vec![mistake; 500],
        report: evil,
        health: None,
    };
    let heard = offering.acknowledged(word).unwrap().word;
    assert_eq!(heard.mistakes.len(), MISTAKES);
    for text in heard.mistakes.iter().chain([&heard.report]) {
        assert!(text.contains("forged"));
        assert!(text.chars().count() < 3 * WORDS, "{}", text.len());
        assert!(!text.contains(|letter: char| letter.is_control() || letter == '\u{202e}'));
    }
}

#[test]
fn words_about_another_statement_are_not_heard() {
    let published = published();
    let (mut offering, statement) = offered(&published);
    for other in [Vec::new(), vec![0; 32], statement.as_bytes()[..31].to_vec()] {
        let word = Acknowledgement {
            statement: other,
            progress: Progress::Refused.into(),
            ..Acknowledgement::default()
        };
        assert!(offering.acknowledged(word).is_none());
    }
}
