//! The log: lines on standard error or in a file, whose filter can be changed while the node runs.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use hermes_net::AppendedFile;
use hermes_proxy::node::LogFilter;
use hermes_rules::log_filter;
use parking_lot::Mutex;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::output::safe;

/// Filter of a node whose file names none.
pub const DEFAULT: &str = "info";

/// Changes what is logged.
#[derive(Debug, Clone)]
pub struct Logging {
    handle: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
    file: Option<Lines>,
}

/// The file of the log, shared by its writers and by those that tell that it was moved. Each line comes in one piece.
#[derive(Debug, Clone)]
struct Lines(Arc<Mutex<AppendedFile>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock();
        if file.is_due() {
            file.follow();
        }
        // Files are read in terminals, too.
        file.write_all(safe(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().flush()
    }
}

impl Logging {
    /// Starts to log to this file, or to standard error.
    ///
    /// # Errors
    /// When `filter` cannot be read, the file not be opened, or logging has already begun.
    pub fn start(filter: &str, file: Option<&Path>) -> Result<Self, String> {
        let (layer, handle) = reload::Layer::new(parse(filter)?);
        let opened = file
            .map(AppendedFile::open)
            .transpose()
            .map_err(|error| format!("log.file: {error}"))?;
        let file = opened.map(|file| Lines(Arc::new(Mutex::new(file))));
        let colours = file.is_none() && io::IsTerminal::is_terminal(&io::stderr());
        let writer = match file.clone() {
            Some(lines) => BoxMakeWriter::new(move || lines.clone()),
            None => BoxMakeWriter::new(|| SafeErrors),
        };

        let lines = fmt::layer().with_writer(writer).with_ansi(colours);
        let registry = tracing_subscriber::registry().with(layer).with(lines);
        registry.try_init().map_err(|error| error.to_string())?;

        Ok(Self {
            handle,
            current: Arc::new(Mutex::new(filter.to_owned())),
            file,
        })
    }
}

impl LogFilter for Logging {
    fn current(&self) -> String {
        self.current.lock().clone()
    }

    fn change(&self, filter: &str) -> Result<(), String> {
        self.handle
            .reload(parse(filter)?)
            .map_err(|error| error.to_string())?;
        filter.clone_into(&mut self.current.lock());
        Ok(())
    }

    fn reopen(&self) {
        if let Some(Lines(file)) = &self.file {
            file.lock().follow();
        }
    }
}

/// The filter with what `debug` alone means: the parts of this program at `debug`, all else at `info`. Libraries tell each frame at
/// `debug`, which buries what an exchange did; `trace` has them.
fn without_frames(filter: &str) -> String {
    let is_debug = |directive: &&str| {
        ["debug", "4"]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(directive.trim()))
    };

    if !filter.split(',').any(|directive| is_debug(&directive)) {
        return filter.to_owned();
    }
    let own = log_filter::PARTS.map(|part| format!("{part}=debug"));

    // What stands later is what counts.
    let given = filter
        .split(',')
        .filter(|directive| !is_debug(directive))
        .map(str::to_owned);

    std::iter::once("info".to_owned())
        .chain(own)
        .chain(given)
        .collect::<Vec<_>>()
        .join(",")
}

/// Standard error, for lines of which a part was chosen by others. Each comes in one piece.
struct SafeErrors;

impl Write for SafeErrors {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(safe(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    if let Some((reason, remedy)) = log_filter::mistake(filter) {
        return Err(format!("{reason}; {remedy}"));
    }
    EnvFilter::try_new(without_frames(filter)).map_err(|error| {
        format!("`{filter}` is no log filter: {error}; write it like `info` or `hermes_proxy=debug,info`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_for_trace() {
        for same in ["info", "hermes_proxy=debug,info", "trace", "h2=debug"] {
            assert_eq!(without_frames(same), same);
        }
        let filter = without_frames("debug,hermes_http=warn");
        assert!(
            filter.starts_with("info,hermes=debug,") && filter.ends_with(",hermes_http=warn"),
            "{filter}"
        );
        assert!(
            !filter.split(',').any(|directive| directive == "debug"),
            "{filter}"
        );
        assert!(
            parse("debug,h2=debug")
                .unwrap()
                .to_string()
                .contains("h2=debug")
        );
        assert!(
            parse("debug,hermes_http=warn")
                .unwrap()
                .to_string()
                .contains("hermes_http=warn")
        );
    }

    #[test]
    fn a_wrong_filter_is_named() {
        let error = parse("hermes=loud").unwrap_err();
        assert!(
            error.starts_with("`loud` is no log level; levels are off, "),
            "{error}"
        );
        let error = parse("[x=debug").unwrap_err();
        assert!(error.starts_with("`[x=debug` is no log filter"), "{error}");
        assert!(parse("hermes_proxy=debug,info").is_ok());
    }
}
