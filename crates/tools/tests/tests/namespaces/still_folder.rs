//! A folder of a file system that can stand still: files in memory, served over FUSE by a thread of the test. While it stands still no
//! operation on it is answered or even taken up, as with a network file system whose server is gone.
//!
//! It speaks as much of the kernel's protocol (`linux/fuse.h`, 7.31) as a program needs that writes and reads files.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use hermes_tests::program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const EEXIST: i32 = 17;
const ENOSYS: i32 = 38;

const ROOT: u64 = 1;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

/// Bytes of a request's head, and of the largest request: a page more than a write may have.
const HEAD: usize = 40;
const LARGEST: usize = WRITE + 4096;
const WRITE: usize = 128 * 1024;

/// Reads and writes pass the page cache, so that each waits for this file system.
const DIRECT: u32 = 1;

/// The state that the test and the thread of the file system share.
#[derive(Default)]
struct Switch {
    stands_still: AtomicBool,
    /// Operations that were answered.
    answered: AtomicU32,
}

/// A file system, until its last user is gone.
pub struct StillFolder {
    device: File,
    switch: Arc<Switch>,
}

impl StillFolder {
    /// One that has these files.
    pub fn new(contents: &[(&str, &str)]) -> Self {
        let mut files = Files::new();
        for (name, content) in contents {
            files.put(name, content);
        }
        let mut options = OpenOptions::new();
        let device = options
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .expect("FUSE: `modprobe fuse`");
        let switch = Arc::<Switch>::default();
        let served = Arc::clone(&switch);
        let from = device.try_clone().unwrap();
        thread::spawn(move || serve(from, files, &served));
        Self { device, switch }
    }

    /// Runs the program where this folder is the file system.
    pub fn mounted(&self, folder: &Path) -> Command {
        std::fs::create_dir(folder).unwrap();
        // It is given to `mount`, and not to the program.
        fcntl_setfd(&self.device, FdFlags::empty()).unwrap();
        let fd = self.device.as_raw_fd();
        let script = format!(
            "mount -i -t fuse -o fd={fd},rootmode=40000,user_id=0,group_id=0 test {} && exec {fd}<&- && exec \"$@\"",
            folder.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", &script, "bash"]);
        command.arg(program::path());
        command
    }

    pub fn stand_still(&self) {
        self.switch.stands_still.store(true, Ordering::SeqCst);
    }

    pub fn go_on(&self) {
        self.switch.stands_still.store(false, Ordering::SeqCst);
    }

    pub fn answered(&self) -> u32 {
        self.switch.answered.load(Ordering::SeqCst)
    }
}

impl Drop for StillFolder {
    fn drop(&mut self) {
        // Programs that wait can end.
        self.go_on();
    }
}

/// Answers operations until the file system is gone.
fn serve(mut device: File, mut files: Files, switch: &Switch) {
    let mut buffer = vec![0; LARGEST];
    loop {
        let mut ready = [PollFd::new(&device, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        let is_ready = poll(&mut ready, Some(&moment)).is_ok_and(|count| count > 0);
        if !is_ready || switch.stands_still.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            // It is not mounted yet, or an operation was taken back.
            Err(error) if matches!(error.raw_os_error(), Some(EPERM | ENOENT | EINTR)) => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(_) => return,
        };
        let request = Request::new(&buffer[..length]);
        if let Some(answer) = files.answer(&request) {
            switch.answered.fetch_add(1, Ordering::SeqCst);
            // An operation that was interrupted meanwhile takes no answer.
            drop(device.write_all(&reply(request.unique, answer)));
        }
    }
}

fn reply(unique: u64, answer: Result<Vec<u8>, i32>) -> Vec<u8> {
    let error = answer.as_ref().err().map_or(0, |error| -error);
    let content = answer.unwrap_or_default();
    let mut bytes = Vec::with_capacity(16 + content.len());
    bytes.extend((16 + content.len() as u32).to_ne_bytes());
    bytes.extend(error.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(content);
    bytes
}

/// An operation.
struct Request<'a> {
    code: u32,
    unique: u64,
    node: u64,
    /// What stands behind the head.
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            code: u32_at(bytes, 4),
            unique: u64_at(bytes, 8),
            node: u64_at(bytes, 16),
            body: &bytes[HEAD..],
        }
    }

    /// The names from this offset of the body.
    fn names(&self, from: usize) -> Vec<String> {
        let names = self.body[from..].split(|byte| *byte == 0);
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A file or a folder.
struct Inode {
    mode: u32,
    content: Vec<u8>,
}

/// All files, and where they stand.
struct Files {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<(u64, String), u64>,
    next: u64,
}

impl Files {
    fn new() -> Self {
        let root = Inode {
            mode: FOLDER | 0o700,
            content: Vec::new(),
        };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            names: BTreeMap::new(),
            next: ROOT + 1,
        }
    }

    /// Makes a file in the root.
    fn put(&mut self, name: &str, content: &str) {
        let inode = Inode {
            mode: FILE | 0o600,
            content: content.as_bytes().to_vec(),
        };
        self.inodes.insert(self.next, inode);
        self.names.insert((ROOT, name.to_owned()), self.next);
        self.next += 1;
    }

    /// The answer to an operation; `None` if it wants none.
    fn answer(&mut self, request: &Request<'_>) -> Option<Result<Vec<u8>, i32>> {
        let body = request.body;
        let node = request.node;
        Some(match request.code {
            // FORGET, INTERRUPT, BATCH_FORGET
            2 | 36 | 42 => return None,
            // INIT
            26 => Ok(first_words(u32_at(body, 8))),
            // LOOKUP
            1 => self.lookup(node, &request.names(0)[0]),
            // GETATTR
            3 => self.attributes(node),
            // SETATTR
            4 => self.change(node, body),
            // OPEN, OPENDIR
            14 => Ok(opened(DIRECT)),
            27 => Ok(opened(0)),
            // CREATE, MKDIR
            35 => self.make(node, FILE | u32_at(body, 4), &request.names(16)[0], true),
            9 => self.make(node, FOLDER | u32_at(body, 0), &request.names(8)[0], false),
            // UNLINK, RMDIR
            10 | 11 => {
                let gone = self.names.remove(&(node, request.names(0)[0].clone()));
                gone.map(|_| Vec::new()).ok_or(ENOENT)
            }
            // RENAME, RENAME2
            12 => self.rename(node, u64_at(body, 0), &request.names(8)),
            45 => self.rename(node, u64_at(body, 0), &request.names(16)),
            // READ, WRITE
            15 => self.read(node, u64_at(body, 8) as usize, u32_at(body, 16) as usize),
            16 => self.write(node, u64_at(body, 8) as usize, &body[40..]),
            // READDIR
            28 => Ok(self.list(node, u64_at(body, 8))),
            // STATFS
            17 => Ok(room()),
            // RELEASE, FSYNC, RELEASEDIR, FSYNCDIR
            18 | 20 | 29 | 30 => Ok(Vec::new()),
            // Such as FLUSH: what was written is here.
            _ => Err(ENOSYS),
        })
    }

    fn lookup(&self, folder: u64, name: &str) -> Result<Vec<u8>, i32> {
        let id = self.names.get(&(folder, name.to_owned()));
        id.map(|id| self.entry(*id)).ok_or(ENOENT)
    }

    /// `fuse_entry_out`: nothing of it may be remembered.
    fn entry(&self, id: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(id.to_ne_bytes());
        bytes.extend([0; 32]);
        bytes.extend(self.attribute_bytes(id));
        bytes
    }

    /// `fuse_attr_out`.
    fn attributes(&self, id: u64) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; 16];
        bytes.extend(self.attribute_bytes(id));
        Ok(bytes)
    }

    /// `fuse_attr`.
    fn attribute_bytes(&self, id: u64) -> Vec<u8> {
        let inode = &self.inodes[&id];
        let size = inode.content.len() as u64;
        let mut bytes = Vec::new();
        for long in [id, size, size.div_ceil(512), 0, 0, 0] {
            bytes.extend(long.to_ne_bytes());
        }
        for word in [0, 0, 0, inode.mode, 1, 0, 0, 0, 4096, 0] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes
    }

    fn change(&mut self, id: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let valid = u32_at(body, 0);
        let inode = self.inodes.get_mut(&id).ok_or(ENOENT)?;
        if valid & 1 != 0 {
            inode.mode = inode.mode & 0o170_000 | u32_at(body, 68) & 0o7777;
        }
        if valid & 8 != 0 {
            inode.content.resize(u64_at(body, 16) as usize, 0);
        }
        self.attributes(id)
    }

    fn make(&mut self, folder: u64, mode: u32, name: &str, opens: bool) -> Result<Vec<u8>, i32> {
        let key = (folder, name.to_owned());
        if self.names.contains_key(&key) {
            return Err(EEXIST);
        }
        let id = self.next;
        self.next += 1;
        let content = Vec::new();
        self.inodes.insert(id, Inode { mode, content });
        self.names.insert(key, id);

        let mut bytes = self.entry(id);
        if opens {
            bytes.extend(opened(DIRECT));
        }
        Ok(bytes)
    }

    fn rename(&mut self, from: u64, to: u64, names: &[String]) -> Result<Vec<u8>, i32> {
        let id = self.names.remove(&(from, names[0].clone())).ok_or(ENOENT)?;
        self.names.insert((to, names[1].clone()), id);
        Ok(Vec::new())
    }

    fn read(&self, id: u64, at: usize, length: usize) -> Result<Vec<u8>, i32> {
        let content = &self.inodes.get(&id).ok_or(ENOENT)?.content;
        let from = at.min(content.len());
        let to = (from + length).min(content.len());
        Ok(content[from..to].to_vec())
    }

    fn write(&mut self, id: u64, at: usize, bytes: &[u8]) -> Result<Vec<u8>, i32> {
        let content = &mut self.inodes.get_mut(&id).ok_or(ENOENT)?.content;
        let end = at + bytes.len();
        content.resize(content.len().max(end), 0);
        content[at..end].copy_from_slice(bytes);
        Ok(u64::to_ne_bytes(bytes.len() as u64).to_vec())
    }

    /// Entries of a folder, all at once.
    fn list(&self, folder: u64, from: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let entries = self.names.iter().filter(|((place, _), _)| *place == folder);
        for (index, ((_, name), id)) in entries.enumerate().skip(from as usize) {
            bytes.extend(id.to_ne_bytes());
            bytes.extend((index as u64 + 1).to_ne_bytes());
            bytes.extend((name.len() as u32).to_ne_bytes());
            bytes.extend((self.inodes[id].mode >> 12).to_ne_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }
}

/// `fuse_init_out`: version 7.31, and the kernel's own read-ahead.
fn first_words(read_ahead: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [7, 31, read_ahead, 0, 0, WRITE as u32, 1] {
        bytes.extend(u32::to_ne_bytes(word));
    }
    bytes.resize(64, 0);
    bytes
}

/// `fuse_open_out`.
fn opened(flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// `fuse_kstatfs`: room enough.
fn room() -> Vec<u8> {
    let mut bytes = Vec::new();
    for long in [1_u64 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20] {
        bytes.extend(long.to_ne_bytes());
    }
    for word in [4096_u32, 255, 4096] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.resize(80, 0);
    bytes
}
