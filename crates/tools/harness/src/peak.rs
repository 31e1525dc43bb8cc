//! How much memory a process has had at most.

use std::fs;

/// The most memory of a node under the whole hostile suite, in bytes.
pub const PROMISED: usize = 256 * 1024 * 1024;

/// The most memory that the process has had so far, in bytes (proc(5), `VmHWM`); `None` when it has ended.
pub fn peak(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? * 1024)
}

/// Whether this is the test in which nodes must keep to [`PROMISED`].
pub fn is_promised() -> bool {
    let test = std::env::current_exe().unwrap_or_default();
    test.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("hostile-"))
}
