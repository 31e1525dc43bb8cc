//! Traffic that bypasses a device although its routes match: this process's own, exceptions, and
//! that of senders whose packets the device does not take.
//!
//! The routes of the device are in tables of its own, one for each length of prefix. Rules of routing for each, the longest first,
//! have the longest prefix decide, as it does within one table:
//!
//! 1. routes of the main table that are longer than this;
//! 2. the device's of this length, for packets without the mark of this process, or for each kind
//!    of senders that it takes.
//!
//! The rules of a killed process have no effect, and are removed when a device of the same name is
//! opened.

use std::collections::BTreeMap;
use std::io;

use ipnet::IpNet;
use parking_lot::Mutex;

use super::senders::{Selection, Senders};
use crate::os::{self, FoundRule, Link, PlacedRule, RouteRule};
use crate::own_mark;

/// The first of our tables; each device has 256.
const TABLES: u32 = 0x4800_0000;

/// The place of the rules for the longest prefixes, and of those for the shortest: behind the local table, and before the main one.
const FIRST: u32 = 5000;

/// The longest prefix there is.
const LONGEST: u8 = 128;

/// Traffic that bypasses a device although its routes match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// Packets to these.
    pub nets: Vec<IpNet>,
    /// Packets of other senders, unless the list is empty.
    pub only: Senders,
    /// Packets of these senders. Members of their control groups bypass the other devices of this
    /// process, too.
    pub except: Senders,
}

/// The routes of a device with a process that bypasses it.
#[derive(Debug)]
pub(super) struct Bypass {
    /// The number of its tables, but for the last byte.
    tables: u32,
    excepted: Vec<IpNet>,
    /// The senders that the device takes packets of.
    senders: Selection,
    /// The families and lengths that have rules.
    led: Vec<(bool, u8)>,
    /// Its number among those of this process.
    number: u64,
}

/// The last one of each name: a device may be made again before the one before it is gone.
static LATEST: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

impl Bypass {
    /// For the device of this name. Rules that an earlier one of the name left behind are removed.
    ///
    /// # Errors
    /// Netlink, or changing rules of routing, is not allowed; or those of [`Selection::new`].
    pub(super) fn new(name: &str, past: &Past) -> io::Result<Self> {
        let tables = TABLES | (u32::from(hash(name)) << 8);
        let number = {
            let mut latest = LATEST.lock();
            let number = latest.entry(tables).or_default();
            *number += 1;
            *number
        };
        let bypass = Self {
            tables,
            excepted: past.nets.clone(),
            senders: Selection::new(&past.only, &past.except, hash(name))?,
            led: Vec::new(),
            number,
        };
        bypass.remove_left()?;
        own_mark::begin()?;
        Ok(bypass)
    }

    /// Leads a network to the device.
    ///
    /// # Errors
    /// Changing routes or their rules is not allowed.
    pub(super) fn add(&mut self, link: Link, net: IpNet) -> io::Result<()> {
        let length = net.prefix_len();
        let is_ipv4 = net.addr().is_ipv4();
        let table = self.table(length);
        let same_family = |one: &&IpNet| one.addr().is_ipv4() == is_ipv4;
        for one in self.excepted.iter().filter(same_family) {
            os::add_exception(table, *one)?;
        }
        link.add_route_in(table, net)?;

        if !self.led.contains(&(is_ipv4, length)) {
            for rule in self.rules(is_ipv4, length) {
                rule.add()?;
            }
            self.led.push((is_ipv4, length));
        }
        Ok(())
    }

    /// Leads it there no more.
    ///
    /// # Errors
    /// There is no such route, or changing routes is not allowed.
    pub(super) fn remove(&self, link: Link, net: IpNet) -> io::Result<()> {
        link.remove_route_in(self.table(net.prefix_len()), net)
    }

    /// The rules for a length.
    fn rules(&self, is_ipv4: bool, length: u8) -> Vec<PlacedRule> {
        let priority = FIRST + 2 * u32::from(LONGEST - length);
        let main = PlacedRule {
            is_ipv4,
            priority,
            rule: RouteRule::MainAbove(length),
        };
        let table = self.table(length);
        let conditions = self.senders.conditions().iter();
        let own = conditions.map(|condition| PlacedRule {
            is_ipv4,
            priority: priority + 1,
            rule: RouteRule::Of {
                table,
                condition: *condition,
            },
        });
        std::iter::once(main).chain(own).collect()
    }

    fn table(&self, length: u8) -> u32 {
        self.tables | u32::from(length)
    }

    fn has(&self, table: u32) -> bool {
        table & !0xff == self.tables
    }

    /// Removes the rules of a device of this name, present or past.
    fn remove_left(&self) -> io::Result<()> {
        for (table, net) in os::exceptions()? {
            if self.has(table) {
                os::remove_exception(table, net)?;
            }
        }

        let all = FoundRule::all()?;
        let (own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|rule| self.has(rule.table));
        for rule in own {
            rule.remove()?;
            let before = rule.priority - 1;
            let is_shared = others
                .iter()
                .any(|other| (other.is_ipv4, other.priority) == (rule.is_ipv4, rule.priority));
            let is_before =
                |other: &&FoundRule| (other.is_ipv4, other.priority) == (rule.is_ipv4, before);
            // Other devices have routes of the same length.
            if !is_shared && let Some(main) = others.iter().find(is_before) {
                main.remove()?;
            }
        }
        Ok(())
    }
}

impl Drop for Bypass {
    fn drop(&mut self) {
        let is_latest = LATEST.lock().get(&self.tables) == Some(&self.number);
        if is_latest {
            // Without its routes, a rule that stays leads nowhere.
            let _ = self.remove_left();
        }
    }
}

/// FNV-1a, folded to 16 bits: devices of one machine have few names.
pub(crate) fn hash(name: &str) -> u16 {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    let hash = name.bytes().fold(2_166_136_261, fold);
    (hash >> 16) as u16 ^ hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tun::Senders;

    fn everyone() -> Selection {
        Selection::new(&Senders::default(), &Senders::default(), 0).unwrap()
    }

    #[test]
    fn the_longest_prefix_comes_first_and_the_main_table_before_its_equals() {
        let bypass = Bypass {
            tables: TABLES,
            excepted: Vec::new(),
            senders: everyone(),
            led: Vec::new(),
            number: 0,
        };
        let [main, own] = bypass.rules(true, 24).try_into().unwrap();
        let [_, longer]: [_; 2] = bypass.rules(true, 25).try_into().unwrap();
        assert_eq!(main.rule, RouteRule::MainAbove(24));
        assert!(longer.priority < main.priority && main.priority < own.priority);
        let [_, shortest]: [_; 2] = bypass.rules(true, 0).try_into().unwrap();
        assert!(shortest.priority < 32_766, "before the main table");
    }

    #[test]
    fn devices_have_tables_of_their_own() {
        assert_ne!(hash("hermes0"), hash("hermes1"));
        assert_ne!(hash("vpn"), hash("tun0"));
    }
}
