//! The page: as many bytes as the thesis' had, in objects that a browser fetches by itself.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// How much of the page there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSize {
    /// 1.9 MB, as in the thesis.
    Whole,
    /// As many objects with a tenth of the bytes.
    Tenth,
}

/// The name of the page.
pub(super) const PAGE: &str = "page.html";
/// A small file beside it.
pub(super) const SMALL: &str = "small.txt";
/// Before the results, in the document.
pub(super) const RESULTS: &str = "RESULTS";

const DOCUMENT: usize = 30_000;
const STYLE: usize = 100_000;
const SCRIPTS: usize = 3;
const SCRIPT: usize = 150_000;
const IMAGES: usize = 30;
const IMAGE: usize = 44_000;

/// Once all is loaded, the document is nothing but its times.
const MEASURING: &str = "addEventListener('load', () => {
  const page = performance.getEntriesByType('navigation')[0];
  const objects = performance.getEntriesByType('resource');
  const bytes = objects.reduce((sum, one) => sum + one.decodedBodySize, page.decodedBodySize);
  const times = { first: page.responseStart / 1000, whole: performance.now() / 1000, bytes };
  document.body.textContent = 'RESULTS' + JSON.stringify(times) + 'RESULTS';
});";

/// Writes the page and its objects into a folder; returns the bytes of all of them.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path, size: PageSize) -> Result<usize> {
    let share = match size {
        PageSize::Whole => 1,
        PageSize::Tenth => 10,
    };
    let mut bytes = 0;
    let mut file = |name: &str, text: String| {
        bytes += text.len();
        fs::write(folder.join(name), text)
    };

    let mut head = format!("<script>{MEASURING}</script><link rel=stylesheet href=style.css>");
    file("style.css", filled("body{margin:0}/*", "*/", STYLE / share))?;
    for number in 0..SCRIPTS {
        let name = format!("script{number}.js");
        file(&name, filled("/*", "*/", SCRIPT / share))?;
        head += &format!("<script defer src={name}></script>");
    }
    let mut body = String::new();
    for number in 0..IMAGES {
        let name = format!("image{number}.svg");
        let begin = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><!--";
        file(&name, filled(begin, "--></svg>", IMAGE / share))?;
        body += &format!("<img src={name}>");
    }
    let begin = format!("<!doctype html><head>{head}</head><body>{body}<!--");
    file(PAGE, filled(&begin, "--></body>", DOCUMENT / share))?;
    fs::write(folder.join(SMALL), "small\n")?;
    Ok(bytes)
}

/// A text of this length, or as long as its ends.
fn filled(begin: &str, end: &str, length: usize) -> String {
    let room = length.saturating_sub(begin.len() + end.len());
    format!("{begin}{}{end}", "x".repeat(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_as_many_bytes_as_that_of_the_thesis() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write(folder.path(), PageSize::Whole).unwrap(), 1_900_000);
    }
}
