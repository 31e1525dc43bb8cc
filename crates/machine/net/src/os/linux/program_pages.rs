//! Pages of the program's own file that are mapped into the process.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::mm::{Advice, madvise};

/// Unmaps the pages of machine code that were needed until now. Those that are needed again return from the page cache, 64 KiB with
/// each minor fault. Reading a configuration runs most of the program once, and serving exchanges a fraction of it: an idle node has
/// 8 MB less resident afterwards. Breakpoints that a debugger has set until now are lost.
///
/// # Errors
/// `/proc/self` cannot be read.
pub fn unmap_start_code() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read("/proc/self/maps")?;
    let lines = maps.split(|&byte| byte == b'\n');
    for (start, end) in lines.filter_map(|line| code_range(line, program.as_os_str().as_bytes())) {
        let address: *mut c_void = ptr::with_exposed_provenance_mut(start);
        #[expect(unsafe_code, reason = "the kernel has no other interface")]
        // SAFETY: nothing can have written to a private mapping of a file without write permission, so what returns is the same code.
        unsafe { madvise(address, end - start, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

/// First and last address, the latter excluded, of a mapping of the program's code in a line of `/proc/self/maps` (proc_pid_maps(5)).
fn code_range(line: &[u8], program: &[u8]) -> Option<(usize, usize)> {
    let line = line.strip_suffix(program)?;
    let line = str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()? != "r-xp" {
        return None;
    }

    let address = |word| usize::from_str_radix(word, 16).ok();
    Some((address(start)?, address(end)?))
}

#[cfg(test)]
mod tests {
    use super::{code_range, unmap_start_code};

    #[test]
    fn only_code_of_the_program_is_meant() {
        let program = b"/usr/bin/hermes";
        let line = b"5600a000-5600b000 r-xp 00001000 fe:00 99                /usr/bin/hermes";
        assert_eq!(code_range(line, program), Some((0x5600_a000, 0x5600_b000)));
        let line = b"5600a000-5600b000 r--p 00000000 fe:00 99                /usr/bin/hermes";
        assert_eq!(code_range(line, program), None);
        let line = b"7f00a000-7f00b000 r-xp 00001000 fe:00 12                /usr/lib/libc.so.6";
        assert_eq!(code_range(line, program), None);
        assert_eq!(code_range(b"", program), None);
    }

    #[test]
    fn code_runs_on() {
        unmap_start_code().unwrap();
    }
}
