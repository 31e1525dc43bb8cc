//! The embedded store: one file, each change a transaction that has reached the disk.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use hermes_api::Hash;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};

use super::{KeptBlob, RecordChange, Store, StoreError};

/// Contents by their hashes.
const BLOBS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("blobs");

/// Contents by their keys.
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// Bytes of memory that the store keeps of its file.
#[doc(alias = "bound")]
const CACHE: usize = 32 * 1024 * 1024;

/// A store in one file, which one process has at a time.
pub struct RedbStore {
    database: Database,
}

impl RedbStore {
    /// Opens the file, or begins one that only this user can read.
    ///
    /// # Errors
    /// Another process has it, it is none of ours, or it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
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
        let backend = FileBackend::new(file).map_err(opened)?;
        Self::begin(backend)
    }

    fn begin(backend: impl StorageBackend) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        let mut database = builder.create_with_backend(backend).map_err(opened)?;
        // Contents that were removed before take room until now.
        database.compact().map_err(failed)?;

        let begun = database.begin_write().map_err(failed)?;
        begun.open_table(BLOBS).map_err(failed)?;
        begun.open_table(RECORDS).map_err(failed)?;
        begun.commit().map_err(failed)?;
        Ok(Self { database })
    }
}

impl Store for RedbStore {
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.database.begin_read().map_err(failed)?;
        let blobs = read.open_table(BLOBS).map_err(failed)?;
        let found = blobs.get(hash.as_bytes().as_slice()).map_err(failed)?;
        Ok(found.map(|blob| blob.value().to_vec()))
    }

    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError> {
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut table = write.open_table(BLOBS).map_err(failed)?;
            for blob in blobs {
                let hash = Hash::of(blob);
                table
                    .insert(hash.as_bytes().as_slice(), blob.as_slice())
                    .map_err(failed)?;
            }
        }
        write.commit().map_err(failed)
    }

    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.database.begin_read().map_err(failed)?;
        let records = read.open_table(RECORDS).map_err(failed)?;
        let found = records.get(key).map_err(failed)?;
        Ok(found.map(|record| record.value().to_vec()))
    }

    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let read = self.database.begin_read().map_err(failed)?;
        let records = read.open_table(RECORDS).map_err(failed)?;
        let mut found = Vec::new();
        for entry in records.range(prefix..).map_err(failed)? {
            let (key, record) = entry.map_err(failed)?;
            if !key.value().starts_with(prefix) {
                break;
            }
            found.push((key.value().to_owned(), record.value().to_vec()));
        }
        Ok(found)
    }

    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        let write = self.database.begin_write().map_err(failed)?;
        let is_as_expected = {
            let mut records = write.open_table(RECORDS).map_err(failed)?;
            let mut is_as_expected = true;
            for change in changes {
                let found = records.get(change.key.as_str()).map_err(failed)?;
                let found = found.map(|record| record.value().to_vec());
                is_as_expected &= found == change.expected;
            }
            for change in changes.iter().filter(|_| is_as_expected) {
                match &change.new {
                    Some(record) => drop(
                        records
                            .insert(change.key.as_str(), record.as_slice())
                            .map_err(failed)?,
                    ),
                    None => drop(records.remove(change.key.as_str()).map_err(failed)?),
                }
            }
            is_as_expected
        };
        // Nothing was written: another one was faster.
        if !is_as_expected {
            write.abort().map_err(failed)?;
            return Ok(false);
        }
        write.commit().map_err(failed)?;
        Ok(true)
    }

    fn remove_blobs(&self, removed: &[KeptBlob]) -> Result<(), StoreError> {
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut blobs = write.open_table(BLOBS).map_err(failed)?;
            for KeptBlob { hash, .. } in removed {
                blobs.remove(hash.as_bytes().as_slice()).map_err(failed)?;
            }
        }
        write.commit().map_err(failed)
    }

    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        let read = self.database.begin_read().map_err(failed)?;
        let blobs = read.open_table(BLOBS).map_err(failed)?;
        let mut kept = Vec::new();
        for entry in blobs.iter().map_err(failed)? {
            let (hash, _) = entry.map_err(failed)?;
            // One process has the store: no one else keeps a blob anew.
            kept.push(KeptBlob {
                hash: Hash::try_from(hash.value()).map_err(unusable)?,
                mark: 0,
            });
        }
        Ok(kept)
    }
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

fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(error) if error.kind() == ErrorKind::StorageFull => StoreError::Full {
            place: PLACE.to_owned(),
            reason: error.to_string(),
            remedy: "make room in its file system, then start the controller again".to_owned(),
        },
        redb::Error::PreviousIo => StoreError::Full {
            place: PLACE.to_owned(),
            reason: "an earlier write has failed".to_owned(),
            remedy: "mend its file system or make room there, then start the controller again"
                .to_owned(),
        },
        redb::Error::Corrupted(reason) => foreign(reason),
        redb::Error::Io(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData
            ) =>
        {
            foreign(error.to_string())
        }
        redb::Error::UpgradeRequired(version) => foreign(format!("it has format {version}")),
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
