//! A store of files: contents that outlive their clients, and the process.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hermes_plug::{NewContent, Store, StoreError, StoreWriter, StoredContent, Storing};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

/// Bytes that are read at once: what each reader holds.
#[doc(alias = "bound")]
const PIECE: usize = 64 * 1024;

/// What a file counts for beside its bytes, so that there are not too many empty ones.
#[doc(alias = "bound")]
const EACH: u64 = 4096;

/// How the names of files end that are not whole, or have no key.
const PART: &str = "part";

/// Contents in the files of a folder, which has a bound in bytes. Being an example, it has none for each owner.
///
/// A file is written under a name of its own, synced, and gets its key by a rename: after a crash there is the whole content or none.
/// Keys become names of files as hexadecimal digits, so that none leads out of the folder.
#[derive(Clone)]
pub struct Files(Arc<Folder>);

struct Folder {
    path: PathBuf,
    /// Bytes of all files at most.
    most: u64,
    /// Bytes of all files, and of those that come.
    used: Mutex<u64>,
    /// How many files were begun.
    begun: AtomicU64,
}

/// Room that a content takes; given back when this is dropped.
struct Room {
    folder: Arc<Folder>,
    bytes: u64,
}

/// A file without a key, which goes when this is dropped.
struct Part {
    path: PathBuf,
    room: Room,
}

/// A content that comes.
struct Writer {
    key: Option<String>,
    file: Option<File>,
    length: u64,
    part: Part,
}

/// A content, open for reading; without a key, it goes with the last who reads it.
struct Content {
    file: Arc<File>,
    length: u64,
    _part: Option<Part>,
}

impl Files {
    /// Contents in a folder, of this many bytes in all. What a crash left unfinished goes.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open(path: &Path, most: u64) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let mut used = 0;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|end| end == PART) {
                fs::remove_file(entry.path())?;
            } else {
                used += EACH + entry.metadata()?.len();
            }
        }

        Ok(Self(Arc::new(Folder {
            path: path.to_owned(),
            most,
            used: Mutex::new(used),
            begun: AtomicU64::new(0),
        })))
    }
}

impl Folder {
    fn of_key(&self, key: &str) -> PathBuf {
        let name: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.path.join(name)
    }

    fn begin(self: Arc<Self>, key: Option<String>) -> Result<Writer, StoreError> {
        let mut room = Room {
            folder: self.clone(),
            bytes: 0,
        };
        room.grow(EACH)?;

        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{number}.{PART}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        Ok(Writer {
            key,
            file: Some(file.map_err(failed)?),
            length: 0,
            part: Part { path, room },
        })
    }

    fn find(&self, key: &str) -> Result<Option<Content>, StoreError> {
        let file = match File::open(self.of_key(key)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        Ok(Some(Content {
            length: file.metadata().map_err(failed)?.len(),
            file: Arc::new(file),
            _part: None,
        }))
    }

    /// Removes a file, and gives its room back.
    fn remove(&self, path: &Path) -> Result<bool, StoreError> {
        // One at a time: what two remove is given back once.
        let mut used = self.used.lock();
        let Some(bytes) = room_of(path)? else {
            return Ok(false);
        };
        fs::remove_file(path).map_err(failed)?;
        *used -= bytes;
        Ok(true)
    }

    /// Puts a whole file in the place of one that may be there, whose room is given back.
    fn replace(&self, whole: &Path, path: &Path) -> Result<(), StoreError> {
        let mut used = self.used.lock();
        let before = room_of(path)?.unwrap_or(0);
        fs::rename(whole, path).map_err(failed)?;
        *used -= before;
        drop(used);

        // So that the name, too, is there after a crash.
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(failed)
    }
}

impl Room {
    fn grow(&mut self, bytes: u64) -> Result<(), StoreError> {
        let mut used = self.folder.used.lock();
        if self.folder.most.saturating_sub(*used) < bytes {
            let most = self.folder.most;
            return Err(StoreError::Full(format!("the files have {most} bytes")));
        }
        *used += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.folder.used.lock() -= self.bytes;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Where it got a key, it is not there any more.
        let _ = fs::remove_file(&self.path);
    }
}

impl Writer {
    /// Gives the whole content its key.
    fn settle(mut self, file: File) -> Result<Content, StoreError> {
        file.sync_all().map_err(failed)?;
        let mut content = Content {
            file: Arc::new(file),
            length: self.length,
            _part: None,
        };

        let Some(key) = &self.key else {
            content._part = Some(self.part);
            return Ok(content);
        };
        let folder = self.part.room.folder.clone();
        folder.replace(&self.part.path, &folder.of_key(key))?;
        // It is the file's from now on.
        self.part.room.bytes = 0;
        Ok(content)
    }
}

impl Store for Files {
    fn create(&self, content: NewContent) -> Storing<'_, Box<dyn StoreWriter>> {
        let folder = self.0.clone();
        Box::pin(async move {
            let writer = beside(move || folder.begin(content.key)).await?;
            Ok(Box::new(writer) as Box<dyn StoreWriter>)
        })
    }

    fn find(&self, key: &str) -> Storing<'_, Option<Arc<dyn StoredContent>>> {
        let folder = self.0.clone();
        let key = key.to_owned();
        Box::pin(async move {
            let found = beside(move || folder.find(&key)).await?;
            Ok(found.map(|content| Arc::new(content) as Arc<dyn StoredContent>))
        })
    }

    fn remove(&self, key: &str) -> Storing<'_, bool> {
        let folder = self.0.clone();
        let path = folder.of_key(key);
        Box::pin(beside(move || folder.remove(&path)))
    }
}

impl StoreWriter for Writer {
    fn write(&mut self, piece: Bytes) -> Storing<'_, ()> {
        Box::pin(async move {
            self.part.room.grow(piece.len() as u64)?;
            let mut file = self.file.take().ok_or_else(broken)?;
            let length = piece.len() as u64;
            let file = beside(move || {
                file.write_all(&piece).map_err(failed)?;
                Ok(file)
            });
            self.file = Some(file.await?);
            self.length += length;
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> Storing<'static, Arc<dyn StoredContent>> {
        Box::pin(async move {
            let file = self.file.take().ok_or_else(broken)?;
            let content = beside(move || self.settle(file)).await?;
            Ok(Arc::new(content) as Arc<dyn StoredContent>)
        })
    }
}

impl StoredContent for Content {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64) -> Storing<'_, Bytes> {
        let left = self.length.saturating_sub(offset);
        let size = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let file = self.file.clone();
        Box::pin(beside(move || {
            let mut piece = vec![0; size];
            file.read_exact_at(&mut piece, offset).map_err(failed)?;
            Ok(piece.into())
        }))
    }
}

/// The room that a file takes; `None` if there is none.
fn room_of(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(file) => Ok(Some(EACH + file.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Does what waits for a disk beside the worker.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())))
}

fn failed(error: io::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// A piece before could not be written.
fn broken() -> StoreError {
    StoreError::Failed("a piece is missing".to_owned())
}
