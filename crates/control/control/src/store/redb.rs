//! The embedded store: one file, each change a transaction that has reached the disk.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hermes_api::Hash;
use parking_lot::RwLock;
use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, Error, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, TableHandle,
};

use super::{KeptBlob, RecordChange, Store, StoreError};

/// Contents by their hashes.
const BLOBS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("blobs");

/// Contents by their keys.
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// Bytes of memory that the store keeps of its file, which the kernel keeps as well: the members of thousands of nodes are read when they come,
/// and then not for days.
#[doc(alias = "bound")]
const CACHE: usize = 8 * 1024 * 1024;

/// A store in one file, which one process has at a time.
pub struct RedbStore {
    /// `None` of one that is no file.
    path: Option<PathBuf>,
    /// `None` while it cannot be opened again, such as on a disk without room.
    database: RwLock<Option<Database>>,
}

impl RedbStore {
    /// Opens the file, or begins one that only this user can read.
    ///
    /// # Errors
    /// Another process has it, it is none of ours, or it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            path: Some(path.to_owned()),
            database: RwLock::new(Some(open(path)?)),
        })
    }

    /// One that lives elsewhere, and cannot be opened again.
    #[cfg(test)]
    fn begin(backend: impl StorageBackend) -> Result<Self, StoreError> {
        Ok(Self {
            path: None,
            database: RwLock::new(Some(begin(backend)?)),
        })
    }

    /// Does something with the database. One that has failed to write refuses everything from then on: it is opened again, and
    /// goes on from the last transaction that was whole.
    fn with<T>(&self, act: impl Fn(&Database) -> Result<T, Error>) -> Result<T, StoreError> {
        if let Some(database) = &*self.database.read() {
            match act(database) {
                Err(Error::PreviousIo) => {}
                done => return done.map_err(failed),
            }
        }
        let Some(path) = &self.path else {
            return Err(failed(Error::PreviousIo));
        };
        let mut held = self.database.write();
        // The file is locked until the first one is gone.
        drop(held.take());
        let database = held.insert(open(path)?);
        act(database).map_err(failed)
    }
}

fn open(path: &Path) -> Result<Database, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(unusable)?;
    // One that was copied here may be readable for others.
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(unusable)?;
    let mut database = begin(FileBackend::new(file).map_err(opened)?)?;
    // Contents that were removed before take room until now. A disk without room for that has still room for reading.
    if let Err(error) = database.compact() {
        tracing::warn!(%error, "{PLACE} is not made smaller");
        drop(database);
        return builder().open(path).map_err(opened);
    }
    Ok(database)
}

fn begin(backend: impl StorageBackend) -> Result<Database, StoreError> {
    let database = builder().create_with_backend(backend).map_err(opened)?;
    if !has_tables(&database).map_err(failed)? {
        make_tables(&database).map_err(failed)?;
    }
    Ok(database)
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

fn has_tables(database: &Database) -> Result<bool, Error> {
    let read = database.begin_read()?;
    let names: Vec<_> = read
        .list_tables()?
        .map(|table| table.name().to_owned())
        .collect();
    Ok([BLOBS.name(), RECORDS.name()]
        .iter()
        .all(|table| names.iter().any(|name| name == table)))
}

fn make_tables(database: &Database) -> Result<(), Error> {
    let begun = database.begin_write()?;
    begun.open_table(BLOBS)?;
    begun.open_table(RECORDS)?;
    Ok(begun.commit()?)
}

impl Store for RedbStore {
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|database| {
            let blobs = database.begin_read()?.open_table(BLOBS)?;
            let found = blobs.get(hash.as_bytes().as_slice())?;
            Ok(found.map(|blob| blob.value().to_vec()))
        })
    }

    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError> {
        self.with(|database| {
            let write = database.begin_write()?;
            let mut table = write.open_table(BLOBS)?;
            for blob in blobs {
                let hash = Hash::of(blob);
                table.insert(hash.as_bytes().as_slice(), blob.as_slice())?;
            }
            drop(table);
            Ok(write.commit()?)
        })
    }

    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            Ok(records.get(key)?.map(|record| record.value().to_vec()))
        })
    }

    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.with(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            let mut found = Vec::new();
            for entry in records.range(prefix..)? {
                let (key, record) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                found.push((key.value().to_owned(), record.value().to_vec()));
            }
            Ok(found)
        })
    }

    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        self.with(|database| {
            let write = database.begin_write()?;
            let mut records = write.open_table(RECORDS)?;
            // Nothing is written where another one was faster.
            if !is_as_expected(&records, changes)? {
                drop(records);
                write.abort()?;
                return Ok(false);
            }
            for change in changes {
                match &change.new {
                    Some(record) => {
                        records.insert(change.key.as_str(), record.as_slice())?;
                    }
                    None => {
                        records.remove(change.key.as_str())?;
                    }
                }
            }
            drop(records);
            write.commit()?;
            Ok(true)
        })
    }

    fn remove_blobs(&self, removed: &[KeptBlob]) -> Result<(), StoreError> {
        self.with(|database| {
            let write = database.begin_write()?;
            let mut blobs = write.open_table(BLOBS)?;
            for KeptBlob { hash, .. } in removed {
                blobs.remove(hash.as_bytes().as_slice())?;
            }
            drop(blobs);
            Ok(write.commit()?)
        })
    }

    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        self.with(|database| {
            let blobs = database.begin_read()?.open_table(BLOBS)?;
            let mut kept = Vec::new();
            for entry in blobs.iter()? {
                let (hash, _) = entry?;
                let hash = Hash::try_from(hash.value());
                // One process has the store: no one else keeps a blob anew.
                kept.push(KeptBlob {
                    hash: hash.map_err(|error| Error::Corrupted(error.to_string()))?,
                    mark: 0,
                });
            }
            Ok(kept)
        })
    }
}

fn is_as_expected(
    records: &impl ReadableTable<&'static str, &'static [u8]>,
    changes: &[RecordChange],
) -> Result<bool, Error> {
    for change in changes {
        let found = records.get(change.key.as_str())?;
        if found.map(|record| record.value().to_vec()) != change.expected {
            return Ok(false);
        }
    }
    Ok(true)
}

fn opened(error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            StoreError::new("another controller runs with this state")
        }
        error => failed(error),
    }
}

/// The name of the file in errors; its folder is known to who opens it.
const PLACE: &str = "store.redb";

fn failed(error: impl Into<Error>) -> StoreError {
    match error.into() {
        Error::Io(error) if error.kind() == ErrorKind::StorageFull => StoreError::Full {
            place: PLACE.to_owned(),
            reason: error.to_string(),
            remedy: "make room in its file system".to_owned(),
        },
        Error::PreviousIo => StoreError::Full {
            place: PLACE.to_owned(),
            reason: "an earlier write has failed".to_owned(),
            remedy: "mend its file system, or make room there".to_owned(),
        },
        Error::Corrupted(reason) => foreign(reason),
        Error::Io(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData
            ) =>
        {
            foreign(error.to_string())
        }
        Error::UpgradeRequired(version) => foreign(format!("it has format {version}")),
        error => unusable(error),
    }
}

fn foreign(reason: String) -> StoreError {
    StoreError::Foreign {
        place: PLACE.to_owned(),
        reason,
        remedy: "it is another program's file, or was damaged: move it away, and begin with a backup by --restore FILE".to_owned(),
    }
}

fn unusable(error: impl std::fmt::Display) -> StoreError {
    StoreError::new(error.to_string())
}

#[cfg(test)]
mod tests;
