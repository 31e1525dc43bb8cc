//! Files that are configurations of other programs: one problem says so, in place of each key that is not known here.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hermes_config::{Problem, Problems};
use hermes_convert::{Format, LONGEST};

/// These problems, or that the file belongs to another program.
pub(super) fn instead(file: &Path, problems: Problems) -> Problems {
    let read = read(file).unwrap_or_default();
    hermes_convert::recognize(&read).map_or(problems, |format| problem(file, format))
}

/// The bytes of a regular file that is not too long. A pipe has been read, and another read could wait for its writer.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
        File::open(file)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// That a file is of this format.
pub(super) fn problem(file: &Path, format: Format) -> Problems {
    let file = file.display();
    let problem = Problem::new("", format!("{file} is {}", format.title()))
        .remedy(format!("try: hermes convert --from {format} '{file}'"));
    Problems(vec![problem])
}
