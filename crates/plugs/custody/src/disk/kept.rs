//! Exchanges as their files have them when a node is started again.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use hermes_proto::custody::ObjectPart;

use super::exchange_log::Log;
use super::record::{self, Found, HEADER, Kind};
use super::{Disk, KeptTerms};

/// An exchange that was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) terms: KeptTerms,
    pub(crate) log: Log,
    /// Its bytes: the object, where in it, where in the file, and how many.
    pub(crate) pieces: Vec<(ObjectPart, u64, u64, usize)>,
    /// The lengths of its objects.
    pub(crate) totals: Vec<(ObjectPart, u64)>,
    pub(crate) is_confirmed: bool,
}

impl Kept {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub(super) fn read(disk: &Disk, file: File, path: PathBuf) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is damaged");
        let length = file.metadata()?.len();
        let mut at = 0;
        let Found::Record(first) = record::read(&file, at, length)? else {
            return Err(damaged());
        };
        let terms = KeptTerms::decode(&first.content).filter(|_| first.kind == Kind::Terms);
        let terms = terms.ok_or_else(damaged)?;
        at += (HEADER + first.content.len()) as u64;

        let mut pieces = Vec::new();
        let mut totals = Vec::new();
        let mut is_confirmed = false;
        loop {
            let record = match record::read(&file, at, length)? {
                Found::Record(record) => record,
                Found::End => break,
                Found::Damaged => return Err(damaged()),
            };
            let size = record.content.len();
            match record.kind {
                Kind::Terms => return Err(damaged()),
                Kind::Bytes(part) => pieces.push((part, record.offset, at, size)),
                Kind::Total(part) => totals.push((part, record.offset)),
                Kind::Confirmed => is_confirmed = true,
            }
            at += (HEADER + size) as u64;
        }

        // The next record has to follow the last whole one: a part of one goes.
        file.set_len(at)?;
        // It is there already, whatever the limit is now.
        disk.0.usage.lock().all += at;
        Ok(Self {
            terms,
            log: Log::found(disk, file, path, at),
            pieces,
            totals,
            is_confirmed,
        })
    }
}
