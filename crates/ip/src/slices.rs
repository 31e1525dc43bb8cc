//! Private address spaces: the same destination is another host for another user.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use hermes_proto::ip::IpPrefix;

use crate::routing_table::{RouteConflict, RoutingTable};

/// Slices of one node: one for each user that has tunnels, and some that users share.
#[doc(alias = "bound")]
pub const MAX_SLICES: usize = 65_536;

/// A route was not added to a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SliceError<O> {
    /// The slice has it, or is full.
    #[error(transparent)]
    Route(#[from] RouteConflict<O>),
    /// There are too many slices.
    #[error("there are {MAX_SLICES} slices, and no room for another")]
    Full,
}

/// A routing table for each slice, by name. A slice is there while it has routes.
#[derive(Debug, Clone)]
pub struct Slices<O> {
    tables: HashMap<Arc<str>, RoutingTable<O>>,
    client_to_client: bool,
}

impl<O: Copy + Eq + Hash> Slices<O> {
    /// No slices. `client_to_client`: whether tunnels of one slice may send to each other; those of two never can.
    pub fn new(client_to_client: bool) -> Self {
        Self {
            tables: HashMap::new(),
            client_to_client,
        }
    }

    /// The table of a slice; `None` where nothing is routed.
    pub fn table(&self, slice: &str) -> Option<&RoutingTable<O>> {
        self.tables.get(slice)
    }

    /// Routes a prefix of a slice to an owner.
    ///
    /// # Errors
    /// [`SliceError`], with nothing changed.
    pub fn insert(&mut self, slice: &str, prefix: IpPrefix, owner: O) -> Result<(), SliceError<O>> {
        if let Some(table) = self.tables.get_mut(slice) {
            return Ok(table.insert(prefix, owner)?);
        }
        if self.tables.len() >= MAX_SLICES {
            return Err(SliceError::Full);
        }

        let mut table = RoutingTable::new(self.client_to_client);
        table.insert(prefix, owner)?;
        self.tables.insert(slice.into(), table);
        Ok(())
    }

    /// Takes a prefix of a slice from its owner; false where another has it, or none.
    pub fn withdraw(&mut self, slice: &str, prefix: IpPrefix, owner: O) -> bool {
        self.change(slice, |table| table.withdraw(prefix, owner))
            .unwrap_or(false)
    }

    /// Takes everything in a slice from an owner.
    pub fn remove(&mut self, slice: &str, owner: O) {
        self.change(slice, |table| table.remove(owner));
    }

    /// Gives everything in a slice to another owner.
    pub fn hand_over(&mut self, slice: &str, from: O, to: O) {
        self.change(slice, |table| table.hand_over(from, to));
    }

    /// Changes a table, which goes with its last route.
    fn change<T>(
        &mut self,
        slice: &str,
        change: impl FnOnce(&mut RoutingTable<O>) -> T,
    ) -> Option<T> {
        let table = self.tables.get_mut(slice)?;
        let changed = change(table);
        if table.is_empty() {
            self.tables.remove(slice);
        }
        Some(changed)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}
