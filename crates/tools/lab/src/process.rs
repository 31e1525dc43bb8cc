//! Programs that the lab starts: ended with it, and their processor time and memory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::topology::Namespace;

/// How long a program may take to end by itself before it is killed.
const END_TIME: Duration = Duration::from_secs(3);
/// When it is told a second time: a node that is told once lets its exchanges end first.
const END_TOLD_AGAIN: Duration = Duration::from_secs(1);
/// Length of a tick in `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
const TICK: Duration = Duration::from_millis(10);
/// Fields of `/proc/PID/stat` after the program's name: parent, user ticks, system ticks.
const STAT_FIELDS: [usize; 3] = [1, 11, 12];

/// A running program. Dropping it ends the program; the kernel ends it when the lab is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, whose output goes to `NAME.log` in `folder`.
    ///
    /// Must be called on the main thread: the kernel ends the program when the thread that started it ends.
    ///
    /// # Errors
    /// When the program or `setpriv` cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        name: &str,
        folder: &Path,
        program: &Path,
        arguments: &[A],
    ) -> Result<Self> {
        Self::start_in(None, name, folder, program, arguments)
    }

    /// The same in a network namespace.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_in<A: AsRef<OsStr>>(
        namespace: Option<&Namespace>,
        name: &str,
        folder: &Path,
        program: &Path,
        arguments: &[A],
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new("setpriv");
        // The kernel ends the program with the lab, even when the lab is killed.
        command.args(["--pdeathsig", "TERM", "--"]);

        if let Some(namespace) = namespace {
            command
                .arg("nsenter")
                .arg(format!("--net={}", namespace.path()))
                .arg("--");
        }

        let child = command
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("{name}: cannot start {}", program.display()))?;

        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Fails with its log if it has ended.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status}:\n{}", self.name, self.log());
        }
        Ok(())
    }

    /// As it was named at its start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends it, and waits until it has: after `limit` it is killed.
    pub fn end(&mut self, limit: Duration) {
        // It may have ended already.
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        let step = Duration::from_millis(10);
        for count in 0..limit.as_millis() / step.as_millis() {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            if count == END_TOLD_AGAIN.as_millis() / step.as_millis() {
                kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
            }
            std::thread::sleep(step);
        }

        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Processor time that its threads and those of its children have used.
    ///
    /// Where the kernel does not count nanoseconds (`CONFIG_SCHED_INFO`), in steps of 10 ms.
    pub fn processor_time(&self) -> Duration {
        let used = |pid: &u32| threads_time(*pid).unwrap_or_else(|| ticks_time(*pid));
        self.tree().iter().map(used).sum()
    }

    /// The same with its threads that have ended, in steps of 10 ms.
    pub fn processor_time_of_all(&self) -> Duration {
        self.tree().iter().map(|pid| ticks_time(*pid)).sum()
    }

    /// Bytes of memory that it and its children have resident; pages that they share with others count in part.
    pub fn memory(&self) -> u64 {
        self.tree()
            .iter()
            .map(|pid| memory_of(&format!("/proc/{pid}/smaps_rollup"), "Pss:"))
            .sum()
    }

    /// Bytes of memory that it and its children have resident, shared or not.
    pub fn resident(&self) -> u64 {
        let own = |pid: &u32| memory_of(&format!("/proc/{pid}/status"), "VmRSS:");
        self.tree().iter().map(own).sum()
    }

    /// Bytes of the program that runs: of the largest, if a script has started another.
    pub fn program_size(&self) -> u64 {
        let size = |pid: &u32| {
            fs::metadata(format!("/proc/{pid}/exe")).map_or(0, |metadata| metadata.len())
        };
        self.tree().iter().map(size).max().unwrap_or(0)
    }

    /// It and its children.
    fn tree(&self) -> Vec<u32> {
        let own = self.child.id();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let children = pids.filter(|pid| stat(*pid).is_some_and(|stat| stat[0] == u64::from(own)));
        std::iter::once(own).chain(children).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(END_TIME);
    }
}

/// Processor time that the threads of this process have used.
pub fn own_processor_time() -> Duration {
    let own = std::process::id();
    threads_time(own).unwrap_or_else(|| ticks_time(own))
}

/// Processor time of the threads of a process that live.
fn threads_time(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut nanoseconds = 0;
    for thread in threads.flatten() {
        // One that ended in the meantime.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
            continue;
        };
        let used: u64 = text.split(' ').next()?.parse().ok()?;
        nanoseconds += used;
    }

    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// Processor time of a process, in ticks.
fn ticks_time(pid: u32) -> Duration {
    let ticks = stat(pid).map_or(0, |stat| stat[1] + stat[2]);
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// Parent, user ticks and system ticks.
fn stat(pid: u32) -> Option<[u64; 3]> {
    // The name may hold spaces and parentheses, so fields are counted behind the last one (proc(5)).
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(") ")?.1.split(' ').collect();
    let mut found = [0; 3];
    for (into, index) in found.iter_mut().zip(STAT_FIELDS) {
        *into = fields.get(index)?.parse().ok()?;
    }
    Some(found)
}

/// A line of a file that tells kibibytes, in bytes.
fn memory_of(file: &str, label: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_figures_can_be_read() {
        let own = std::process::id();
        assert!(stat(own).is_some());
        // Threads that have ended, as those of other tests, count in ticks alone. User and system time are rounded down each.
        assert!(threads_time(own).is_none_or(|time| time <= ticks_time(own) + 2 * TICK));
        assert!(memory_of(&format!("/proc/{own}/smaps_rollup"), "Pss:") > 100_000);
        assert!(memory_of(&format!("/proc/{own}/status"), "VmRSS:") > 100_000);
    }

    #[test]
    fn a_dropped_process_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start("cat", folder.path(), Path::new("sleep"), &["1000"]).unwrap();
        let pid = process.child.id();
        assert!(stat(pid).is_some());
        drop(process);
        assert!(stat(pid).is_none());
    }
}
