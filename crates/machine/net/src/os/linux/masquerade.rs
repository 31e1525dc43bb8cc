//! Masquerade by nf_tables (nft(8)): packets of a device leave by other interfaces with the
//! addresses of those.
//!
//! There is one table for each device, which its socket owns (`NFT_TABLE_F_OWNER`, Linux 5.12): the kernel removes it with the socket,
//! however the process ends, and no one else changes it meanwhile; `nft flush ruleset` leaves it as it is. In the words of nft:
//!
//! ```text
//! table inet hermes-hermes1-1 {
//!     flags owner
//!     chain postrouting {
//!         type nat hook postrouting priority srcnat
//!         iifname "hermes1" oifname != "hermes1" masquerade
//!     }
//!     chain forward {
//!         type filter hook forward priority filter
//!         iifname "hermes1" ct state invalid drop
//!     }
//! }
//! ```
//!
//! The second chain is for packets without a connection, such as a stray segment of TCP: the kernel
//! does not translate them, and they would leave with an unknown address.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, sendto};

use super::super::Masquerade;
use super::netlink::{
    Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, ROOM, answered, append_attribute,
    attributes, message_size, netlink_socket, read,
};

/// Subsystem, and types of messages (`linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`).
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_NEWRULE: u16 = 6;

/// Both versions of IP (`linux/netfilter.h`).
const NFPROTO_INET: u8 = 1;

/// Where packets leave, and where nft, too, has the translation of sources (`NF_IP_PRI_NAT_SRC`).
const POSTROUTING: Chain = Chain {
    name: "postrouting",
    kind: "nat",
    hook: 4,
    priority: 100,
};

/// Where they pass through this machine.
const FORWARD: Chain = Chain {
    name: "forward",
    kind: "filter",
    hook: 2,
    priority: 0,
};

/// The table goes with the socket that made it.
const NFT_TABLE_F_OWNER: u32 = 2;

/// The value is attributes.
const NESTED: u16 = 0x8000;

/// Attributes (`linux/netfilter/nf_tables.h`).
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;

/// The register that passes a value from one expression to the next, and the register of the
/// verdict.
const REGISTER: u32 = 1;
const NFT_REG_VERDICT: u32 = 0;
/// The loaded value: the name of the interface that a packet came from, or leaves by.
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
/// The state of its connection, as bits; the bit of "no connection"; and the verdict to drop.
const NFT_CT_STATE: u32 = 0;
const INVALID: u32 = 1;
const NF_DROP: u32 = 0;

/// The prefix of the names of tables.
const PREFIX: &str = "hermes-";

/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;

/// A device that no one has: a name of an interface is shorter.
const NO_DEVICE: &str = "hermes-no-device";

/// Rules, and when they are asked.
struct Chain {
    name: &'static str,
    kind: &'static str,
    hook: u32,
    priority: u32,
}

impl Masquerade {
    /// Masquerades packets of the device of this name that leave by another one.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables, no masquerade, or no tables that are owned.
    pub fn of(device: &str) -> io::Result<Self> {
        // One that takes the place of another may be there before that is gone.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = change(&format!("{PREFIX}{device}-{number}"), device, true)?;
        Ok(Self { _socket: socket })
    }

    /// Whether it is possible. Changes nothing.
    ///
    /// # Errors
    /// Errors of [`Self::of`].
    pub fn check() -> io::Result<()> {
        change(NO_DEVICE, NO_DEVICE, false).map(|_| ())
    }
}

/// The existing tables of this kind, of any process.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables.
pub fn masquerades() -> io::Result<Vec<String>> {
    let socket = netlink_socket(Some(NETFILTER), SocketFlags::empty(), 0)?;
    let dump = Message {
        kind: (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE,
        flags: NLM_F_REQUEST | NLM_F_DUMP,
        content: vec![0; NFGENMSG],
    };
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &dump.bytes(), SendFlags::empty(), &kernel)?;

    let mut tables = Vec::new();
    let mut room = vec![0; ROOM];
    loop {
        // The kernel answers a dump within the send: there is nothing to wait for, and a missing answer is an error.
        let (length, _) = recv(&socket, &mut room[..], RecvFlags::DONTWAIT)?;
        let is_last = read(&room[..length], |_, content| {
            tables.extend(own_table(content))
        })?;
        if is_last {
            return Ok(tables);
        }
    }
}

/// The name of a table, if it is of this kind.
fn own_table(content: &[u8]) -> Option<String> {
    let mut attributes = attributes(content.get(NFGENMSG..)?);
    let (_, name) = attributes.find(|(kind, _)| *kind == NFTA_TABLE_NAME)?;
    let name = str::from_utf8(name).ok()?.trim_end_matches('\0');
    name.starts_with(PREFIX).then(|| name.to_owned())
}

/// Makes the table, or has the kernel check that it could. Returns the socket that owns it.
fn change(table: &str, device: &str, commits: bool) -> io::Result<OwnedFd> {
    let socket = netlink_socket(Some(NETFILTER), SocketFlags::empty(), 0)?;
    let mut changes = vec![
        batch_limit(NFNL_MSG_BATCH_BEGIN),
        new(NFT_MSG_NEWTABLE, &table_attributes(table)),
        new(NFT_MSG_NEWCHAIN, &POSTROUTING.attributes(table)),
        new(NFT_MSG_NEWCHAIN, &FORWARD.attributes(table)),
        new(
            NFT_MSG_NEWRULE,
            &POSTROUTING.rule(table, &leaves_as_ours(device)),
        ),
        new(
            NFT_MSG_NEWRULE,
            &FORWARD.rule(table, &drops_invalid(device)),
        ),
    ];
    // Without its end, a batch is checked and undone, as `nft --check` does.
    if commits {
        changes.push(batch_limit(NFNL_MSG_BATCH_END));
    }
    let asked = changes
        .iter()
        .filter(|change| change.flags & NLM_F_ACK != 0);
    let asked = asked.count();

    let bytes: Vec<u8> = changes.iter().flat_map(Message::bytes).collect();
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &bytes, SendFlags::empty(), &kernel)?;
    all_answered(&socket, asked)?;
    Ok(socket)
}

/// Reads answers, which are there as soon as the messages were sent: to each of those that asked for one, or an error before that.
fn all_answered(socket: &OwnedFd, mut asked: usize) -> io::Result<()> {
    let mut room = vec![0; ROOM];
    while asked > 0 {
        let (length, _) = recv(socket, &mut room[..], RecvFlags::DONTWAIT)?;
        let mut answers = &room[..length];
        while !answers.is_empty() {
            answered(answers)?;
            asked = asked.saturating_sub(1);
            let size = message_size(answers).ok_or(io::ErrorKind::InvalidData)?;
            answers = answers.get(size..).unwrap_or_default();
        }
    }
    Ok(())
}

/// The beginning or the end of changes that are made together, or not at all.
fn batch_limit(kind: u16) -> Message {
    Message {
        kind,
        flags: NLM_F_REQUEST,
        // `struct nfgenmsg`: for any family, and for nf_tables.
        content: [&[0, 0][..], &NFNL_SUBSYS_NFTABLES.to_be_bytes()].concat(),
    }
}

fn new(kind: u16, attributes: &[u8]) -> Message {
    let structure = [NFPROTO_INET, 0, 0, 0];
    Message {
        kind: (NFNL_SUBSYS_NFTABLES << 8) | kind,
        flags: NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
        content: [&structure[..], attributes].concat(),
    }
}

fn table_attributes(table: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, NFTA_TABLE_NAME, table);
    number(&mut bytes, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
    bytes
}

impl Chain {
    fn attributes(&self, table: &str) -> Vec<u8> {
        let mut hook = Vec::new();
        number(&mut hook, NFTA_HOOK_HOOKNUM, self.hook);
        number(&mut hook, NFTA_HOOK_PRIORITY, self.priority);

        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_CHAIN_TABLE, table);
        text(&mut bytes, NFTA_CHAIN_NAME, self.name);
        nested(&mut bytes, NFTA_CHAIN_HOOK, &hook);
        text(&mut bytes, NFTA_CHAIN_TYPE, self.kind);
        bytes
    }

    fn rule(&self, table: &str, expressions: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_RULE_TABLE, table);
        text(&mut bytes, NFTA_RULE_CHAIN, self.name);
        nested(&mut bytes, NFTA_RULE_EXPRESSIONS, expressions);
        bytes
    }
}

/// `iifname "hermes1" oifname != "hermes1" masquerade`
fn leaves_as_ours(device: &str) -> Vec<u8> {
    let mut rule = Vec::new();
    expression(&mut rule, "meta", &load(NFT_META_IIFNAME));
    expression(&mut rule, "cmp", &compare(NFT_CMP_EQ, &interface(device)));
    expression(&mut rule, "meta", &load(NFT_META_OIFNAME));
    // Packets back into the device keep their source: their peers there know it.
    expression(&mut rule, "cmp", &compare(NFT_CMP_NEQ, &interface(device)));
    expression(&mut rule, "masq", &[]);
    rule
}

/// `iifname "hermes1" ct state invalid drop`
fn drops_invalid(device: &str) -> Vec<u8> {
    let mut rule = Vec::new();
    expression(&mut rule, "meta", &load(NFT_META_IIFNAME));
    expression(&mut rule, "cmp", &compare(NFT_CMP_EQ, &interface(device)));
    // A packet that belongs to no connection is not translated, and would leave with an address that no one else knows.
    expression(&mut rule, "ct", &load_state());
    expression(&mut rule, "bitwise", &mask(INVALID));
    expression(&mut rule, "cmp", &compare(NFT_CMP_NEQ, &[0; 4]));
    expression(&mut rule, "immediate", &drop_it());
    rule
}

/// Loads the name of an interface.
fn load(key: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(&mut bytes, NFTA_META_DREG, REGISTER);
    number(&mut bytes, NFTA_META_KEY, key);
    bytes
}

/// Loads the state of the connection.
fn load_state() -> Vec<u8> {
    let mut bytes = Vec::new();
    number(&mut bytes, NFTA_CT_DREG, REGISTER);
    number(&mut bytes, NFTA_CT_KEY, NFT_CT_STATE);
    bytes
}

/// Masks the loaded value with these bits.
fn mask(bits: u32) -> Vec<u8> {
    let length = size_of_val(&bits) as u32;
    let mut bytes = Vec::new();
    number(&mut bytes, NFTA_BITWISE_SREG, REGISTER);
    number(&mut bytes, NFTA_BITWISE_DREG, REGISTER);
    number(&mut bytes, NFTA_BITWISE_LEN, length);
    // The kernel keeps it as a number of its own.
    nested(&mut bytes, NFTA_BITWISE_MASK, &value(&bits.to_ne_bytes()));
    nested(&mut bytes, NFTA_BITWISE_XOR, &value(&[0; 4]));
    bytes
}

fn drop_it() -> Vec<u8> {
    let mut code = Vec::new();
    number(&mut code, NFTA_VERDICT_CODE, NF_DROP);
    let mut verdict = Vec::new();
    nested(&mut verdict, NFTA_DATA_VERDICT, &code);

    let mut bytes = Vec::new();
    number(&mut bytes, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    nested(&mut bytes, NFTA_IMMEDIATE_DATA, &verdict);
    bytes
}

/// Goes on if the loaded value equals this, or does not.
fn compare(operation: u32, with: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(&mut bytes, NFTA_CMP_SREG, REGISTER);
    number(&mut bytes, NFTA_CMP_OP, operation);
    nested(&mut bytes, NFTA_CMP_DATA, &value(with));
    bytes
}

/// The name of an interface as it stands in a register: of one length, with zeros behind it.
fn interface(name: &str) -> [u8; libc::IFNAMSIZ] {
    let mut padded = [0; libc::IFNAMSIZ];
    let length = name.len().min(libc::IFNAMSIZ);
    padded[..length].copy_from_slice(&name.as_bytes()[..length]);
    padded
}

fn value(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    append_attribute(&mut value, NFTA_DATA_VALUE, bytes);
    value
}

fn expression(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut content = Vec::new();
    text(&mut content, NFTA_EXPR_NAME, name);
    nested(&mut content, NFTA_EXPR_DATA, data);
    nested(bytes, NFTA_LIST_ELEM, &content);
}

fn nested(bytes: &mut Vec<u8>, kind: u16, attributes: &[u8]) {
    append_attribute(bytes, kind | NESTED, attributes);
}

/// A number, in the order of the network as all of nf_tables.
fn number(bytes: &mut Vec<u8>, kind: u16, number: u32) {
    append_attribute(bytes, kind, &number.to_be_bytes());
}

fn text(bytes: &mut Vec<u8>, kind: u16, text: &str) {
    append_attribute(bytes, kind, &[text.as_bytes(), &[0]].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of the first attribute of this type.
    fn inner(bytes: &[u8], kind: u16) -> &[u8] {
        let mut found = attributes(bytes).filter(|(found, _)| *found == kind);
        found.next().unwrap().1
    }

    #[test]
    fn a_comparison_is_of_whole_names() {
        let comparison = compare(NFT_CMP_EQ, &interface("hermes1"));
        let data = inner(&comparison, NFTA_CMP_DATA | NESTED);
        let name = inner(data, NFTA_DATA_VALUE);
        assert_eq!(name, b"hermes1\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_rule_has_its_expressions_in_their_order() {
        let rule = POSTROUTING.rule("hermes-hermes1-1", &leaves_as_ours("hermes1"));
        let list = inner(&rule, NFTA_RULE_EXPRESSIONS | NESTED);
        let names = attributes(list).map(|(_, one)| inner(one, NFTA_EXPR_NAME));
        let names: Vec<&[u8]> = names.collect();
        assert_eq!(
            names,
            [&b"meta\0"[..], b"cmp\0", b"meta\0", b"cmp\0", b"masq\0"]
        );
    }
}
