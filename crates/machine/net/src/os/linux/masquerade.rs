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
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Masquerade;
use super::nft_rule::Rule;
use super::nftables::{Batch, Chain, TableLife, tables};

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

/// The state "no connection", as a bit.
const INVALID: u32 = 1;

/// The prefix of the names of tables.
const PREFIX: &str = "hermes-";

/// A device that no one has: a name of an interface is shorter.
const NO_DEVICE: &str = "hermes-no-device";

impl Masquerade {
    /// Masquerades packets of the device of this name that leave by another one.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables, no masquerade, or no tables that are owned.
    pub fn of(device: &str) -> io::Result<Self> {
        // One that takes the place of another may be there before that is gone.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = rules(&format!("{PREFIX}{device}-{number}"), device).commit()?;
        Ok(Self { _socket: socket })
    }

    /// Whether it is possible. Changes nothing.
    ///
    /// # Errors
    /// Errors of [`Self::of`].
    pub fn check() -> io::Result<()> {
        rules(NO_DEVICE, NO_DEVICE).check()
    }
}

/// The existing tables of this kind, of any process.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables.
pub fn masquerades() -> io::Result<Vec<String>> {
    let found = tables(PREFIX)?.into_iter();
    Ok(found.map(|table| table.name).collect())
}

fn rules(table: &str, device: &str) -> Batch {
    let mut batch = Batch::default();
    batch.table(table, TableLife::OfSocket);
    batch.chain(table, POSTROUTING);
    batch.chain(table, FORWARD);

    // Packets back into the device keep their source: their peers there know it.
    let as_ours = Rule::default()
        .by_interface(device)
        .not_to_interface(device)
        .masquerade();
    batch.rule(table, POSTROUTING, &as_ours);

    // A packet that belongs to no connection is not translated, and would leave with an address that no one else knows.
    let invalid = Rule::default()
        .by_interface(device)
        .has_state(INVALID)
        .drop_it();
    batch.rule(table, FORWARD, &invalid);
    batch
}
