//! Time zones, from the database of the system.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::tz::TimeZone;
use parking_lot::RwLock;

use crate::budget;

/// Zones that are kept once they were read: policies name a few.
#[doc(alias = "bound")]
const ZONES: usize = 64;

/// Zones that were read from the system's database, by name.
static KNOWN: LazyLock<RwLock<HashMap<String, TimeZone>>> = LazyLock::new(RwLock::default);

/// Forgets the zones read so far, so that a reloaded policy sees changes on this machine.
pub(crate) fn forget() {
    // The library keeps what it has read for some minutes.
    jiff::tz::reset_system_time_zone_cache();
    jiff::tz::db().reset();
    KNOWN.write().clear();
}

/// The zone of this name; `None` if there is none, or on a worker if it has not been read yet.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    if let Some(known) = KNOWN.read().get(name) {
        return Some(known.clone());
    }
    // On a worker: reading a file would hold up all its exchanges.
    if budget::is_hurried() {
        budget::give_up();
        return None;
    }

    let read = match name {
        // A machine that says nothing of its zone is in UTC.
        "Local" => TimeZone::try_system().unwrap_or(TimeZone::UTC),
        name => TimeZone::get(name).ok()?,
    };
    let mut known = KNOWN.write();
    // Names may come from a client: beyond the bound, zones are read again each time.
    if known.len() < ZONES {
        known.insert(name.to_owned(), read.clone());
    }
    Some(read)
}
