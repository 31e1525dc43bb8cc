//! `Hermes-Functions`: functions that nodes further on are asked for, by their names there, in the order of the nodes.
//!
//! ```text
//! Hermes-Functions: b=scan tap;from=a;at=1790000000;once=00f1..;mac=9b4c.., c=..    ; in the request
//! Hermes-Functions: b;mac=77ab.., c;mac=..                                         ; in its 2xx answer
//! ```
//!
//! Each part is signed with a key that the two nodes share ([`SignedFunctions::text`]), for one tunnel. A node takes its own part out,
//! and proves in the answer that it has done it ([`SignedFunctions::proof_text`]); the others go on. The node that asks refuses a tunnel
//! for which not all have proved it. The field is taken from peer proxies only, and removed everywhere else.

use std::fmt::Write as _;

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-functions");

/// Nodes that are asked in one request.
#[doc(alias = "bound")]
pub const NODES: usize = 8;

/// Functions that one node is asked for.
#[doc(alias = "bound")]
pub const FUNCTIONS: usize = 8;

/// The length of the name of a node or function.
const NAME: usize = 256;

/// A code that proves who wrote a text: HMAC-SHA256.
pub type Mac = [u8; 32];

/// The functions that one node is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFunctions {
    /// The node.
    pub node: String,
    /// The names of the functions there, in their order.
    pub functions: Vec<String>,
}

/// The same with a signature, for one tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedFunctions {
    /// What is asked for.
    pub functions: NodeFunctions,
    /// The node that asks.
    pub from: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// A random number, which no other request of this node has.
    pub once: u64,
    /// The code of [`Self::text`].
    pub mac: Mac,
}

impl SignedFunctions {
    /// The text that the code is of. It has the target, so that it is good for no other tunnel.
    pub fn text(&self, target: &str) -> String {
        self.told("ask", target)
    }

    /// The text of which the node that did its part sends back the code.
    pub fn proof_text(&self, target: &str) -> String {
        self.told("done", target)
    }

    /// No part has a line end in it, so that no other parts make the same text.
    fn told(&self, verb: &str, target: &str) -> String {
        let Self {
            functions,
            from,
            at,
            once,
            ..
        } = self;
        let NodeFunctions { node, functions } = functions;
        let functions = functions.join(" ");
        format!(
            "hermes-functions 1 {verb}\n{from}\n{node}\n{functions}\n{target}\n{at}\n{once:016x}"
        )
    }
}

/// That a node has done its part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneFunctions {
    /// The node.
    pub node: String,
    /// The code of [`SignedFunctions::proof_text`].
    pub mac: Mac,
}

/// The field is malformed, or asks for too much. No part of it may be ignored: the peer depends on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Hermes-Functions is malformed, or asks for too much")]
pub struct BadFunctions;

/// Whether this may be the name of a node or of a function there.
pub fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@/".contains(&byte);
    !name.is_empty() && name.len() <= NAME && name.bytes().all(is_part)
}

/// Takes the parts of all nodes out of the fields of a request.
///
/// # Errors
/// They are malformed or too many, or a node stands there twice.
pub fn take(fields: &mut Fields) -> Result<Vec<SignedFunctions>, BadFunctions> {
    let Some(value) = fields.take(FIELD) else {
        return Ok(Vec::new());
    };
    let text = value.to_str().map_err(|_| BadFunctions)?;
    let mut asked: Vec<SignedFunctions> = Vec::new();
    for written in text.split(',') {
        let part = part(written.trim()).ok_or(BadFunctions)?;
        let is_known = |known: &SignedFunctions| known.functions.node == part.functions.node;
        if asked.len() >= NODES || asked.iter().any(is_known) {
            return Err(BadFunctions);
        }
        asked.push(part);
    }

    Ok(asked)
}

/// The part of one node.
fn part(written: &str) -> Option<SignedFunctions> {
    let mut pieces = written.split(';');
    let (node, names) = pieces.next()?.split_once('=')?;
    let functions: Vec<String> = names.split(' ').map(str::to_owned).collect();
    let mut next = |key: &str| {
        let (written, value) = pieces.next()?.split_once('=')?;
        (written == key).then_some(value)
    };
    let from = next("from")?;
    let at = next("at").and_then(decimal)?;
    let once = next("once").and_then(hex)?;
    let mac = next("mac").and_then(hex)?;

    let are_names =
        [node, from].into_iter().all(is_name) && functions.iter().all(|name| is_name(name));
    let is_good = are_names && functions.len() <= FUNCTIONS && pieces.next().is_none();
    is_good.then(|| SignedFunctions {
        functions: NodeFunctions {
            node: node.to_owned(),
            functions,
        },
        from: from.to_owned(),
        at,
        once: u64::from_be_bytes(once),
        mac,
    })
}

/// Writes the parts of nodes into the fields of a request; no field for none.
pub fn write<'p>(asked: impl Iterator<Item = &'p SignedFunctions>, fields: &mut Fields) {
    let part = |one: &SignedFunctions| {
        let NodeFunctions { node, functions } = &one.functions;
        let functions = functions.join(" ");
        let SignedFunctions { from, at, once, .. } = one;
        let mac = hexed(&one.mac);
        format!("{node}={functions};from={from};at={at};once={once:016x};mac={mac}")
    };
    let parts: Vec<_> = asked.map(part).collect();
    put(&parts.join(", "), fields);
}

/// Takes the nodes that have done their part out of the fields of an answer. Malformed ones are no proof of anything.
pub fn take_done(fields: &mut Fields) -> Vec<DoneFunctions> {
    let value = fields.take(FIELD);
    let text = value.as_ref().and_then(|value| value.to_str().ok());
    let done = |written: &str| {
        let (node, mac) = written.trim().split_once(";mac=")?;
        let mac = hex(mac)?;
        is_name(node).then(|| DoneFunctions {
            node: node.to_owned(),
            mac,
        })
    };
    let parts = text.unwrap_or_default().split(',');
    parts.filter_map(done).take(NODES).collect()
}

/// Writes the nodes that have done their part into the fields of an answer; no field for none.
pub fn write_done<'d>(done: impl Iterator<Item = &'d DoneFunctions>, fields: &mut Fields) {
    let part = |one: &DoneFunctions| format!("{};mac={}", one.node, hexed(&one.mac));
    let parts: Vec<_> = done.map(part).collect();
    put(&parts.join(", "), fields);
}

fn put(text: &str, fields: &mut Fields) {
    match HeaderValue::try_from(text) {
        Ok(value) if !text.is_empty() => {
            fields.insert(FIELD, value);
        }
        _ => {
            fields.remove(FIELD);
        }
    }
}

/// A number in its one form: without sign and leading zeros.
fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Bytes in lower case: one form, so that what is signed is what is read.
fn hex<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * LENGTH || !text.bytes().all(is_lower) {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn hexed(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Into a string it cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(node: &str, functions: &[&str]) -> SignedFunctions {
        SignedFunctions {
            functions: NodeFunctions {
                node: node.to_owned(),
                functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            },
            from: "a".to_owned(),
            at: 1_790_000_000,
            once: 7,
            mac: [0xab; 32],
        }
    }

    fn written(parts: &[SignedFunctions]) -> String {
        let mut fields = Fields::new();
        write(parts.iter(), &mut fields);
        fields.get(FIELD).unwrap().to_str().unwrap().to_owned()
    }

    fn taken(text: &str) -> Result<Vec<SignedFunctions>, BadFunctions> {
        let mut fields = Fields::new();
        fields.insert(FIELD, HeaderValue::try_from(text).unwrap());
        let taken = take(&mut fields);
        assert!(fields.is_empty());
        taken
    }

    #[test]
    fn nodes_come_back_in_their_order() {
        let asked = [signed("b", &["scan", "compress"]), signed("c", &["tap"])];
        let text = written(&asked);
        assert!(
            text.starts_with("b=scan compress;from=a;at=1790000000;once=0000000000000007;mac=abab")
        );
        assert_eq!(taken(&text).unwrap(), asked);
        let mut fields = Fields::new();
        write([].into_iter(), &mut fields);
        assert!(fields.is_empty());
    }

    #[test]
    fn the_answer_names_nodes_and_proofs_alone() {
        let done = ["b", "c"].map(|node| DoneFunctions {
            node: node.to_owned(),
            mac: [1; 32],
        });
        let mut fields = Fields::new();
        write_done(done.iter(), &mut fields);
        assert_eq!(take_done(&mut fields), done);
        fields.insert(FIELD, HeaderValue::from_static("b, c;mac=12, ;mac="));
        assert_eq!(take_done(&mut fields), []);
    }

    #[test]
    fn no_part_of_a_malformed_field_is_ignored() {
        let good = written(&[signed("b", &["x"])]);
        let names: Vec<_> = (0..=NODES)
            .map(|number| signed(&format!("n{number}"), &["x"]))
            .collect();
        let twice = written(&[signed("b", &["x"]), signed("b", &["y"])]);
        let long = written(&[signed("b", &["x"; FUNCTIONS + 1])]);
        let wrong = [
            String::new(),
            "b".to_owned(),
            "b=x".to_owned(),
            format!("{good},"),
            format!("{good};more=1"),
            good.replace("b=x", "b=x  y"),
            good.replace("b=x", "b="),
            good.replace("b=x", "b=x\u{e9}"),
            good.replace("at=1", "at=+1"),
            good.replace("at=1", "at=01"),
            good.replace("abab", "ABab"),
            good.replace("abab", "+bab"),
            good.replace("from=a", "from="),
            written(&names),
            twice,
            long,
        ];
        assert!(taken(&good).is_ok());
        for text in wrong {
            assert_eq!(taken(&text), Err(BadFunctions), "{text}");
        }
    }

    #[test]
    fn each_part_changes_the_text_that_is_signed() {
        let one = signed("b", &["x", "y"]);
        let other = |change: fn(&mut SignedFunctions)| {
            let mut other = one.clone();
            change(&mut other);
            other.text("t:1")
        };
        let texts = [
            one.text("t:1"),
            one.text("t:2"),
            one.proof_text("t:1"),
            other(|one| one.functions.node = "c".to_owned()),
            other(|one| one.functions.functions = vec!["y".to_owned(), "x".to_owned()]),
            other(|one| one.from = "c".to_owned()),
            other(|one| one.at += 1),
            other(|one| one.once += 1),
        ];
        let unique: std::collections::HashSet<_> = texts.iter().collect();
        assert_eq!(unique.len(), texts.len());
    }
}
