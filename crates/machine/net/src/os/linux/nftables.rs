//! The language of nf_tables over netlink (nft(8)): tables that their socket owns, chains, rules and the expressions that ours need.
//!
//! All numbers are in the order of the network. A batch is made as a whole or not at all.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, sendto};

use super::netlink::{
    Message, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, ROOM, answered,
    append_attribute, attributes, message_size, netlink_socket, number as native_number, read,
};
use super::nft_rule::Rule;

/// Subsystem, and types of messages (`linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`).
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_MSG_NEWSET: u16 = 9;
const NFT_MSG_NEWSETELEM: u16 = 12;
const NFT_MSG_DESTROYSETELEM: u16 = 30;

/// Both versions of IP (`linux/netfilter.h`).
const NFPROTO_INET: u8 = 1;

/// The table goes with the socket that made it, or stays without an owner (Linux 6.9).
const NFT_TABLE_F_OWNER: u32 = 2;
const NFT_TABLE_F_PERSIST: u32 = 4;

/// The value is attributes.
pub(super) const NESTED: u16 = 0x8000;

/// Attributes (`linux/netfilter/nf_tables.h`).
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_TABLE_OWNER: u16 = 7;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;

/// A set whose elements expire, and the form of its keys, which is of no meaning to the kernel.
const NFT_SET_TIMEOUT: u32 = 0x10;
const KEY_TYPE: u32 = 19;
const NFTA_LIST_ELEM: u16 = 1;
pub(super) const NFTA_DATA_VALUE: u16 = 1;
const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_ID: u16 = 10;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;

/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;

/// Rules, and when they are asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) hook: u32,
    pub(super) priority: i32,
}

/// The life of a table beside that of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableLife {
    /// The kernel removes it with the socket.
    OfSocket,
    /// It stays without an owner until another process adopts it.
    Persistent,
}

/// A table that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundTable {
    pub(super) name: String,
    /// Whether it lost the process that owned it.
    pub(super) is_orphan: bool,
}

/// Changes that are made together, or not at all.
#[derive(Debug, Default)]
pub(super) struct Batch {
    changes: Vec<Message>,
}

impl Batch {
    /// Makes a table, which this socket owns.
    pub(super) fn table(&mut self, name: &str, life: TableLife) {
        let flags = match life {
            TableLife::OfSocket => NFT_TABLE_F_OWNER,
            TableLife::Persistent => NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST,
        };
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_TABLE_NAME, name);
        number(&mut bytes, NFTA_TABLE_FLAGS, flags);
        self.changes.push(change(NFT_MSG_NEWTABLE, &bytes));
    }

    /// Removes a table.
    pub(super) fn remove_table(&mut self, name: &str) {
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_TABLE_NAME, name);
        self.changes.push(change(NFT_MSG_DELTABLE, &bytes));
    }

    /// Makes a chain of a table.
    pub(super) fn chain(&mut self, table: &str, chain: Chain) {
        let bytes = chain.attributes(table);
        self.changes.push(change(NFT_MSG_NEWCHAIN, &bytes));
    }

    /// Appends a rule to a chain.
    pub(super) fn rule(&mut self, table: &str, chain: Chain, rule: &Rule) {
        let bytes = chain.rule(table, rule.expressions());
        self.changes.push(change(NFT_MSG_NEWRULE, &bytes));
    }

    /// Makes a set of numbers that expire.
    pub(super) fn expiring_set(&mut self, table: &str, name: &str) {
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_SET_TABLE, table);
        text(&mut bytes, NFTA_SET_NAME, name);
        number(&mut bytes, NFTA_SET_FLAGS, NFT_SET_TIMEOUT);
        number(&mut bytes, NFTA_SET_KEY_TYPE, KEY_TYPE);
        number(&mut bytes, NFTA_SET_KEY_LEN, size_of::<u32>() as u32);
        number(&mut bytes, NFTA_SET_ID, 1);
        self.changes.push(change(NFT_MSG_NEWSET, &bytes));
    }

    /// Puts a number into such a set for this time from now on, also if it is there (Linux 6.3).
    pub(super) fn renew_element(&mut self, table: &str, set: &str, key: u32, lasts: Duration) {
        let element = |lasts: Option<Duration>| {
            let mut key_bytes = Vec::new();
            nested(
                &mut key_bytes,
                NFTA_SET_ELEM_KEY,
                &value(&key.to_ne_bytes()),
            );
            if let Some(lasts) = lasts {
                let lasts = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
                append_attribute(&mut key_bytes, NFTA_SET_ELEM_TIMEOUT, &lasts.to_be_bytes());
            }
            let mut list = Vec::new();
            nested(&mut list, NFTA_LIST_ELEM, &key_bytes);
            let mut bytes = Vec::new();
            text(&mut bytes, NFTA_SET_ELEM_LIST_TABLE, table);
            text(&mut bytes, NFTA_SET_ELEM_LIST_SET, set);
            nested(&mut bytes, NFTA_SET_ELEM_LIST_ELEMENTS, &list);
            bytes
        };
        // The time of an element that is there would stay as it was, before Linux 6.13.
        self.changes
            .push(change(NFT_MSG_DESTROYSETELEM, &element(None)));
        self.changes
            .push(change(NFT_MSG_NEWSETELEM, &element(Some(lasts))));
    }

    /// Has the kernel make the changes. Returns the socket that owns the new tables.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel lacks one of the expressions.
    pub(super) fn commit(self) -> io::Result<OwnedFd> {
        self.run(true)
    }

    /// Has the kernel say whether it could make them. Changes nothing.
    ///
    /// # Errors
    /// As those of [`Self::commit`].
    pub(super) fn check(self) -> io::Result<()> {
        self.run(false).map(drop)
    }

    fn run(self, commits: bool) -> io::Result<OwnedFd> {
        let socket = netlink_socket(Some(NETFILTER), SocketFlags::empty(), 0)?;
        self.run_on(&socket, commits)?;
        Ok(socket)
    }

    /// As [`Self::commit`], on the socket that owns the tables already.
    ///
    /// # Errors
    /// As there.
    pub(super) fn commit_on(self, socket: &OwnedFd) -> io::Result<()> {
        self.run_on(socket, true)
    }

    fn run_on(self, socket: &OwnedFd, commits: bool) -> io::Result<()> {
        let asked = self.changes.len();
        let mut all = vec![batch_limit(NFNL_MSG_BATCH_BEGIN)];
        all.extend(self.changes);
        // Without its end, a batch is checked and undone, as `nft --check` does.
        if commits {
            all.push(batch_limit(NFNL_MSG_BATCH_END));
        }

        let bytes: Vec<u8> = all.iter().flat_map(Message::bytes).collect();
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(socket, &bytes, SendFlags::empty(), &kernel)?;
        all_answered(socket, asked)
    }
}

/// The existing tables of both versions of IP whose names begin so, of any process.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables.
pub(super) fn tables(prefix: &str) -> io::Result<Vec<FoundTable>> {
    let socket = netlink_socket(Some(NETFILTER), SocketFlags::empty(), 0)?;
    let dump = Message {
        kind: (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE,
        flags: NLM_F_REQUEST | NLM_F_DUMP,
        content: vec![0; NFGENMSG],
    };
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &dump.bytes(), SendFlags::empty(), &kernel)?;

    let mut found = Vec::new();
    let mut room = vec![0; ROOM];
    loop {
        // The kernel answers a dump within the send: there is nothing to wait for, and a missing answer is an error.
        let (length, _) = recv(&socket, &mut room[..], RecvFlags::DONTWAIT)?;
        let is_last = read(&room[..length], |_, content| {
            found.extend(found_table(content).filter(|table| table.name.starts_with(prefix)));
        })?;
        if is_last {
            return Ok(found);
        }
    }
}

fn found_table(content: &[u8]) -> Option<FoundTable> {
    let all = content.get(NFGENMSG..)?;
    let of = |wanted: u16| {
        let mut values = attributes(all).filter(|(kind, _)| *kind == wanted);
        values.next().map(|(_, value)| value)
    };
    let name = str::from_utf8(of(NFTA_TABLE_NAME)?).ok()?;
    let flags = of(NFTA_TABLE_FLAGS).and_then(native_number);
    let persists = flags.is_some_and(|flags| u32::from_be(flags) & NFT_TABLE_F_PERSIST != 0);
    Some(FoundTable {
        name: name.trim_end_matches('\0').to_owned(),
        is_orphan: persists && of(NFTA_TABLE_OWNER).is_none(),
    })
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

fn change(kind: u16, attributes: &[u8]) -> Message {
    let structure = [NFPROTO_INET, 0, 0, 0];
    Message {
        kind: (NFNL_SUBSYS_NFTABLES << 8) | kind,
        // Rules come behind those that are there: otherwise before them.
        flags: NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND,
        content: [&structure[..], attributes].concat(),
    }
}

impl Chain {
    fn attributes(self, table: &str) -> Vec<u8> {
        let mut hook = Vec::new();
        number(&mut hook, NFTA_HOOK_HOOKNUM, self.hook);
        number(&mut hook, NFTA_HOOK_PRIORITY, self.priority.cast_unsigned());

        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_CHAIN_TABLE, table);
        text(&mut bytes, NFTA_CHAIN_NAME, self.name);
        nested(&mut bytes, NFTA_CHAIN_HOOK, &hook);
        text(&mut bytes, NFTA_CHAIN_TYPE, self.kind);
        bytes
    }

    pub(super) fn rule(self, table: &str, expressions: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_RULE_TABLE, table);
        text(&mut bytes, NFTA_RULE_CHAIN, self.name);
        nested(&mut bytes, NFTA_RULE_EXPRESSIONS, expressions);
        bytes
    }
}

pub(super) fn value(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    append_attribute(&mut value, NFTA_DATA_VALUE, bytes);
    value
}

pub(super) fn nested(bytes: &mut Vec<u8>, kind: u16, attributes: &[u8]) {
    append_attribute(bytes, kind | NESTED, attributes);
}

/// A number, in the order of the network as all of nf_tables.
pub(super) fn number(bytes: &mut Vec<u8>, kind: u16, number: u32) {
    append_attribute(bytes, kind, &number.to_be_bytes());
}

pub(super) fn text(bytes: &mut Vec<u8>, kind: u16, text: &str) {
    append_attribute(bytes, kind, &[text.as_bytes(), &[0]].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_its_owner_is_an_orphan_if_it_persists() {
        let table = |flags: u32, owner: Option<u32>| {
            let mut bytes = vec![0; NFGENMSG];
            text(&mut bytes, NFTA_TABLE_NAME, "hermes-capture-lan-1");
            number(&mut bytes, NFTA_TABLE_FLAGS, flags);
            if let Some(owner) = owner {
                number(&mut bytes, NFTA_TABLE_OWNER, owner);
            }
            found_table(&bytes).unwrap()
        };
        let both = NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST;
        assert!(table(both, None).is_orphan);
        assert!(!table(both, Some(7)).is_orphan);
        assert!(!table(NFT_TABLE_F_OWNER, None).is_orphan);
        assert_eq!(table(0, None).name, "hermes-capture-lan-1");
    }
}
