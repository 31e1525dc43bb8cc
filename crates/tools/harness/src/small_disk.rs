//! A small disk of one process's own, which can be filled. As root.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program;

/// The file that fills it.
const FILLER: &str = "filler";

/// Runs the program where this folder, which is made, is a disk of so many bytes.
///
/// # Panics
/// When the folder cannot be made.
pub fn command(folder: &Path, bytes: usize) -> Command {
    fs::create_dir_all(folder).unwrap();
    let script = format!(
        "mount -t tmpfs -o mode=700,size={bytes} tmpfs {} && exec \"$@\"",
        folder.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command.arg(program::path());
    command
}

/// Fills the disk of this process.
///
/// # Panics
/// When it cannot be reached.
pub fn fill(process: u32, folder: &Path) {
    // It ends where there is no room any more, and that is no failure.
    inside(
        process,
        &format!(
            "dd if=/dev/zero of={}/{FILLER} bs=1024 2>/dev/null; true",
            folder.display()
        ),
    );
}

/// Gives the room back.
///
/// # Panics
/// When it cannot be reached.
pub fn empty(process: u32, folder: &Path) {
    inside(process, &format!("rm {}/{FILLER}", folder.display()));
}

fn inside(process: u32, script: &str) {
    let process = process.to_string();
    let arguments = ["--target", &process, "--mount", "sh", "-c", script];
    let status = Command::new("nsenter").args(arguments).status().unwrap();
    assert!(status.success(), "{status}");
}
