//! The log: lines on standard error or in a file, with a filter that can be changed while the node runs. A thread of its own writes them:
//! a terminal that is stopped, or a pipe that no one reads, stops nothing else.

use std::backtrace::Backtrace;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::AppendedFile;
use hermes_net::background::{Background, Sink};
use hermes_node::LogFilter;
use hermes_rules::log_filter;
use parking_lot::Mutex;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::log_shares::LogShares;
use crate::output::safe;

/// Filter of a node without one in its file.
pub const DEFAULT: &str = "info";

/// Changes the filter.
#[derive(Debug, Clone)]
pub struct Logging {
    handle: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
    lines: Lines,
    /// Standard error, where notes go also when the log has a file.
    errors: Lines,
}

/// How long the last lines may take at the end of the process, or of a thread that panics.
#[doc(alias = "bound")]
const LAST_LINES: Duration = Duration::from_secs(1);

/// The near end of a thread that writes lines. Each comes in one piece.
#[derive(Debug, Clone)]
struct Lines(Background<Vec<u8>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.offer(line.to_vec(), line.len());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where lines end.
enum LineSink {
    Errors,
    File(AppendedFile),
}

impl Sink for LineSink {
    type Piece = Vec<u8>;

    fn size(line: &Vec<u8>) -> usize {
        line.len()
    }

    fn write(&mut self, line: Vec<u8>) -> io::Result<()> {
        // Parts were chosen by others, and files are read in terminals, too.
        let text = String::from_utf8_lossy(&line);
        let text = safe(&text);
        match self {
            Self::Errors => io::stderr().write_all(text.as_bytes()),
            Self::File(file) => {
                if file.is_due() {
                    file.follow();
                }
                file.write_all(text.as_bytes())
            }
        }
    }

    fn tell_lost(&mut self, lost: u64) -> io::Result<()> {
        let text = format!(
            "{lost} lines of the log were lost here: their reader was too slow, or failed\n"
        );
        self.write(text.into_bytes())
    }

    fn follow(&mut self) {
        if let Self::File(file) = self {
            file.follow();
        }
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
        let colours = opened.is_none() && io::IsTerminal::is_terminal(&io::stderr());
        let threads = Self::threads(opened);
        let (errors, lines) = threads.map_err(|error| format!("the log: {error}"))?;

        let writer = lines.clone();
        let writer = BoxMakeWriter::new(move || writer.clone());
        let layers = fmt::layer().with_writer(writer).with_ansi(colours);
        let noted = lines.clone();
        let shares = LogShares::new(move |left_out| {
            // The writer of this line waits for no one.
            let _ = writeln!(
                noted.clone(),
                "{left_out} lines such as the next one were left out: one user or source had too many"
            );
        });
        let registry = tracing_subscriber::registry().with(layer);
        let registry = registry.with(shares).with(layers);
        registry.try_init().map_err(|error| error.to_string())?;
        tell_panics(lines.clone());

        Ok(Self {
            handle,
            current: Arc::new(Mutex::new(filter.to_owned())),
            lines,
            errors,
        })
    }

    /// Starts the writers to standard error and to the file, if there is one.
    fn threads(file: Option<AppendedFile>) -> io::Result<(Lines, Lines)> {
        let errors = Lines(Background::start("hermes-errors", LineSink::Errors)?);
        let lines = match file {
            Some(file) => Lines(Background::start("hermes-log", LineSink::File(file))?),
            None => errors.clone(),
        };
        Ok((errors, lines))
    }

    /// Says something on standard error, wherever the log goes.
    pub fn note(&self, text: impl std::fmt::Display) {
        // Lines are handed to the writer without waiting, and so is this message.
        let _ = writeln!(self.errors.clone(), "{text}");
    }

    /// Waits a moment until all lines so far are written.
    pub fn flush(&self) {
        // The reader of standard error may stand still: the lines are lost then.
        let _ = self.lines.0.flush(LAST_LINES) && self.errors.0.flush(LAST_LINES);
    }
}

/// Panics are written as lines of the log are: the thread that panics may be a worker.
fn tell_panics(lines: Lines) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let trace = Backtrace::capture();
        let text = format!("thread '{name}' {panic}\n{trace}\n");
        lines.0.offer(text.clone().into_bytes(), text.len());
        // It may be the end of the process.
        lines.0.flush(LAST_LINES);
    }));
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
        self.lines.0.follow();
        // After the answer everything is where it belongs.
        self.flush();
    }
}

/// The crates of the data plane, which a filter names `hermes_proxy` as a whole.
const DATA_PLANE: [&str; 5] = [
    "hermes_plug",
    "hermes_admit",
    "hermes_exchange",
    "hermes_listen",
    "hermes_node",
];

/// The filter with each crate of the data plane where it names the whole.
fn with_data_plane(filter: &str) -> String {
    let directives = filter.split(',').map(|directive| {
        let (part, level) = match directive.split_once('=') {
            Some((part, level)) => (part, format!("={level}")),
            None => (directive, String::new()),
        };
        match part.trim().split("::").next() {
            Some("hermes_proxy") => {
                let each = DATA_PLANE.map(|part| format!(",{part}{level}"));
                format!("hermes_proxy{level}{}", each.concat())
            }
            _ => directive.to_owned(),
        }
    });
    directives.collect::<Vec<_>>().join(",")
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

    // A later directive overrides an earlier one.
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

/// The filter without warnings of QUIC's library, one for each connection whose peer sends an illegal packet: strangers would fill the
/// log. Those who ask for its target or for `trace` have it.
fn without_packets(filter: String) -> String {
    let is_trace = |directive: &str| {
        let level = directive.trim();
        ["trace", "5"]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(level))
    };
    match filter.contains("quinn") || filter.split(',').any(is_trace) {
        true => filter,
        false => format!("quinn_proto=error,{filter}"),
    }
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    if let Some((reason, remedy)) = log_filter::mistake(filter) {
        return Err(format!("{reason}; {remedy}"));
    }
    let full = without_packets(without_frames(&with_data_plane(filter)));
    EnvFilter::try_new(full).map_err(|error| {
        format!("`{filter}` is not a log filter: {error}; write it like `info` or `hermes_proxy=debug,info`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_plane_is_named_as_a_whole() {
        assert_eq!(with_data_plane("debug,h2=info"), "debug,h2=info");
        let whole = with_data_plane("hermes_proxy=debug,info");
        assert_eq!(
            whole,
            "hermes_proxy=debug,hermes_plug=debug,hermes_admit=debug,hermes_exchange=debug,hermes_listen=debug,hermes_node=debug,info"
        );
        assert_eq!(
            with_data_plane("hermes_proxy::forward=debug")
                .matches("=debug")
                .count(),
            6
        );
    }

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
    fn packets_of_strangers_are_for_those_who_ask_for_them() {
        let has = |filter: &str| parse(filter).unwrap().to_string();
        for quiet in ["info", "debug", "hermes_proxy=debug,info"] {
            let full = has(quiet);
            assert!(full.contains("quinn_proto=error"), "{full}");
        }
        for asked in ["trace", "quinn_proto=warn,info", "info,quinn=debug"] {
            let full = has(asked);
            assert!(!full.contains("quinn_proto=error"), "{full}");
        }
    }

    #[test]
    fn a_wrong_filter_is_named() {
        let error = parse("hermes=loud").unwrap_err();
        assert!(
            error.starts_with("`loud` is not a log level; levels are off, "),
            "{error}"
        );
        let error = parse("[x=debug").unwrap_err();
        assert!(
            error.starts_with("`[x=debug` is not a log filter"),
            "{error}"
        );
        assert!(parse("hermes_proxy=debug,info").is_ok());
    }
}
