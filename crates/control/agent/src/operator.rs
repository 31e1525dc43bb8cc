//! An operator without whose signature a node follows no document.

use hermes_api::{SignedEndorsement, Statement, VerifyingKey, parts};

/// The operator, as a node was told when it joined.
#[derive(Debug)]
pub(crate) struct Operator {
    key: VerifyingKey,
    /// Devices share one document, and its signature.
    is_device: bool,
    /// When the newest signature that was seen was made, in Unix milliseconds.
    seen: u64,
}

impl Operator {
    /// The operator with this key, of whom a signature of this time was seen.
    pub(crate) fn new(key: VerifyingKey, is_device: bool, seen: u64) -> Self {
        Self {
            key,
            is_device,
            seen,
        }
    }

    /// When the newest signature that was seen was made.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether the document of a statement, which is for this node, may be followed. No earlier signature counts afterwards.
    ///
    /// # Errors
    /// The operator has not signed it for this node, or has signed later ones.
    pub(crate) fn judge(
        &mut self,
        signed: &SignedEndorsement,
        statement: &Statement,
    ) -> Result<(), &'static str> {
        if signed.text.is_empty() {
            return Err(
                "this node follows only documents that its operator has signed, and this one is not: \
                 apply it with --sign",
            );
        }
        let endorsement = signed.verify(&self.key);
        let endorsement = endorsement.map_err(
            |_| "the document is not signed by the operator's key that this node was told when it joined",
        )?;

        let is_for = match &endorsement.node {
            Some(node) => *node == statement.node,
            None => self.is_device,
        };
        if endorsement.overlay != statement.overlay || !is_for {
            return Err("the operator has signed the documents of another node");
        }
        if endorsement.signed < self.seen {
            return Err("the operator has signed later documents than these");
        }
        let document = statement.parts.get(parts::DOCUMENT);
        if !document.is_some_and(|document| endorsement.documents.contains(document)) {
            return Err("the document is none of those that the operator has signed");
        }
        self.seen = endorsement.signed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use hermes_api::{Endorsement, Hash, Revision, SigningKey};

    use super::*;

    fn operators_key() -> SigningKey {
        SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
    }

    fn endorsement(signed: u64, documents: &[&[u8]]) -> Endorsement {
        let documents = documents.iter().map(|document| Hash::of(document));
        Endorsement {
            overlay: "demo".parse().unwrap(),
            node: Some("edge".parse().unwrap()),
            signed,
            documents: documents.collect(),
        }
    }

    fn statement(document: &[u8]) -> Statement {
        Statement {
            overlay: "demo".parse().unwrap(),
            node: "edge".parse().unwrap(),
            revision: Revision::FIRST,
            parts: BTreeMap::from([(parts::DOCUMENT.to_owned(), Hash::of(document))]),
            confirm_seconds: None,
        }
    }

    #[test]
    fn a_signed_document_of_this_node_is_followed_and_an_earlier_one_no_more() {
        let key = operators_key();
        let mut operator = Operator::new(key.verifying(), false, 0);
        let first = endorsement(1, &[b"a", b"b"]).sign(&key);
        let second = endorsement(2, &[b"b", b"c"]).sign(&key);
        assert_eq!(operator.judge(&first, &statement(b"a")), Ok(()));
        // On the way to the next document, and back.
        assert_eq!(operator.judge(&second, &statement(b"c")), Ok(()));
        assert_eq!(operator.judge(&second, &statement(b"b")), Ok(()));
        let said = operator.judge(&first, &statement(b"a")).unwrap_err();
        assert!(said.contains("later documents"), "{said}");
        assert_eq!(operator.seen(), 2);
    }

    #[test]
    fn nothing_else_is_followed() {
        let key = operators_key();
        let other = operators_key();
        let signed = endorsement(1, &[b"a"]);
        let of_devices = Endorsement {
            node: None,
            ..signed.clone()
        };
        let of_another_node = Endorsement {
            node: Some("hub".parse().unwrap()),
            ..signed.clone()
        };
        let of_another_overlay = Endorsement {
            overlay: "other".parse().unwrap(),
            ..signed.clone()
        };
        let of_nothing = Endorsement {
            documents: BTreeSet::new(),
            ..signed.clone()
        };
        let unsigned = SignedEndorsement {
            text: String::new(),
            signature: Vec::new(),
        };
        let mut operator = Operator::new(key.verifying(), false, 0);
        for refused in [of_devices, of_another_node, of_another_overlay, of_nothing] {
            let judged = operator.judge(&refused.sign(&key), &statement(b"a"));
            assert!(judged.is_err(), "{refused:?}");
        }
        for refused in [unsigned, signed.sign(&other)] {
            assert!(operator.judge(&refused, &statement(b"a")).is_err());
        }
        // Nothing that was refused counts as seen.
        assert_eq!(operator.seen(), 0);
        assert_eq!(operator.judge(&signed.sign(&key), &statement(b"a")), Ok(()));
    }
}
