//! Chromium without a window, which loads the page once and says how long that took.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::page::RESULTS;

/// The times of a page, in seconds since the browser set out for it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct PageTimes {
    /// The first byte of the document.
    pub first: f64,
    /// The document and all objects.
    pub whole: f64,
    /// Their contents.
    pub bytes: usize,
}

/// Time for a browser to start and to end, beside that of the page.
const AROUND: Duration = Duration::from_secs(60);

/// A browser that was started. Dropping it ends it.
pub(super) struct Browser {
    child: Child,
    document: PathBuf,
    deadline: Instant,
    /// Bytes of the page.
    bytes: usize,
}

impl Browser {
    /// Starts one by a command that runs Chromium; `folder` is its own, and does not exist.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        mut command: Command,
        folder: PathBuf,
        url: &str,
        limit: Duration,
        bytes: usize,
    ) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        let document = folder.join("document.html");
        command
            // No sandbox: it needs a user other than root.
            .args(["--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--ignore-certificate-errors"])
            .arg(format!("--timeout={}", limit.as_millis()))
            .arg(format!("--user-data-dir={}", folder.display()))
            .args(["--dump-dom", url])
            .stdin(Stdio::null())
            .stdout(fs::File::create(&document)?)
            .stderr(fs::File::create(folder.join("errors.log"))?);
        Ok(Self {
            child: command.spawn().context("chromium-headless-shell")?,
            document,
            deadline: Instant::now() + limit + AROUND,
            bytes,
        })
    }

    /// Waits for its end; `None` of a page that was not whole in time.
    ///
    /// # Errors
    /// Its document cannot be read.
    pub(super) fn end(&mut self) -> Result<Option<PageTimes>> {
        while self.child.try_wait()?.is_none() {
            if Instant::now() > self.deadline {
                return Ok(None);
            }
            sleep(Duration::from_millis(50));
        }
        let document = fs::read_to_string(&self.document)?;
        let times = found(&document)?;
        Ok(times.filter(|times| times.bytes == self.bytes))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The times in a document; none of a page that has not ended.
fn found(document: &str) -> Result<Option<PageTimes>> {
    // The word stands in the script, too, which has no braces behind it.
    let begin = format!("{RESULTS}{{");
    let Some((_, rest)) = document.split_once(&begin) else {
        return Ok(None);
    };
    let (times, _) = rest.split_once(RESULTS).context("results without an end")?;
    Ok(Some(serde_json::from_str(&format!("{{{times}"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_read_from_a_document_and_not_from_its_script() {
        let script = "<script>'RESULTS' + x + 'RESULTS'</script>";
        assert!(found(script).unwrap().is_none());
        let document = format!(
            "{script}<body>RESULTS{{\"first\":0.5,\"whole\":2.5,\"bytes\":7}}RESULTS</body>"
        );
        let times = found(&document).unwrap().unwrap();
        assert_eq!((times.first, times.whole, times.bytes), (0.5, 2.5, 7));
    }
}
