//! The log: lines on standard error, whose filter can be changed while the node runs.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Filter of a node whose file names none.
pub const DEFAULT: &str = "info";

/// Changes what is logged.
#[derive(Debug, Clone)]
pub struct Logging {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Logging {
    /// Starts to log to standard error.
    ///
    /// # Errors
    /// When `filter` cannot be read, or logging has already begun.
    pub fn start(filter: &str) -> Result<Self, String> {
        let (layer, handle) = reload::Layer::new(parse(filter)?);
        let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
        let registry = tracing_subscriber::registry().with(layer).with(lines);
        registry.try_init().map_err(|error| error.to_string())?;
        Ok(Self { filter: handle })
    }

    /// Logs what `filter` says from now on.
    ///
    /// # Errors
    /// When `filter` cannot be read; the old one stays.
    pub fn change(&self, filter: &str) -> Result<(), String> {
        self.filter.reload(parse(filter)?).map_err(|error| error.to_string())
    }
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| {
        format!("`{filter}` is no log filter: {error}; write it like `info` or `hermes_proxy=debug,info`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_filter_is_named() {
        let error = parse("hermes=loud").unwrap_err();
        assert!(error.starts_with("`hermes=loud` is no log filter"), "{error}");
        assert!(parse("hermes_proxy=debug,info").is_ok());
    }
}
