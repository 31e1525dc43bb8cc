//! Self-certifying channels: their URI names a key by its hash (RFC 6920), and its owner proves the possession of it with each request, by a
//! signature (RFC 9421) over the method, the path, the digest of the content (RFC 9530) and all that receivers are told of it.
//!
//! The signature travels with the message as a [`Proof`], so that receivers check it by the URI alone, whatever relays are in between.
//!
//! It is not an authority for keys: there is none. It has no clock and no random source: times and nonces are arguments, and
//! [`ReplayWindow`] is the machine that knows a message which comes again.
//!
//! Begin reading in [`ChannelKeys`], the keys of a path, then [`Statement`], the text that is signed.

mod approval;
mod file;
mod key;
mod name;
mod proof;
mod signature;
mod statement;
mod window;

pub use approval::{APPROVE, Approval, ApprovalError, MAX_APPROVED};
pub use file::{KeyFileError, key_of_pem};
pub use key::{PublicKey, SigningKey};
pub use name::{ChannelKeys, KeyName, NameError};
pub use proof::{MAX_PROOF, Message, Proof, ProofError};
pub use signature::{SIGNATURE, SIGNATURE_INPUT, Signature, SignatureError};
pub use statement::{CONTENT_DIGEST, Statement, content_digest};
pub use window::{LASTS, Replay, ReplayWindow, Room};

/// Tries arbitrary bytes as everything that this crate reads.
#[cfg(test)]
fn fuzz_one(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = ChannelKeys::of(&text);
    if let Ok(name) = text.parse::<KeyName>() {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(approval) = Approval::parse(data) {
        let again = Approval::parse(approval.value().as_bytes());
        assert_eq!(again, Ok(approval));
    }
    if let Ok(proof) = Proof::decode(data) {
        let again = Proof::decode(&proof.encode());
        assert_eq!(again, Ok(proof));
    }
    drop(Signature::read(data, data));
    drop(key_of_pem(&text));
}

#[cfg(test)]
mod tests {
    #[test]
    fn survives_hostile_bytes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
        let pieces = [
            "relay=(",
            "\"@path\"",
            ";tag=",
            "keys=(",
            "ni:sha-256;",
            ": ",
            "\n",
        ];
        let corpus = hermes_corpus::Corpus::read(&[folder]);
        let corpus = corpus.with_pieces(pieces.map(str::as_bytes));
        corpus.test(20_000, super::fuzz_one);
    }
}
