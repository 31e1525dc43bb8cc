//! Files that the configuration names, read up to a bound: a device or a log would never end.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a file of `most` bytes at most.
///
/// # Errors
/// The file cannot be read, or has more bytes ([`ErrorKind::FileTooLarge`]).
pub fn read_at_most(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?.take(most + 1).read_to_end(&mut content)?;

    if content.len() as u64 > most {
        let reason = format!("longer than {} MiB", most >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_read_up_to_the_bound() {
        let error = read_at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "longer than 1 MiB");

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 1 << 20]).unwrap();
        assert_eq!(read_at_most(file.path(), 1 << 20).unwrap().len(), 1 << 20);
    }
}
