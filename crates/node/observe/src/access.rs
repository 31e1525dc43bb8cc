//! Where access records go.

use std::io;

use hermes_config::model::Access;
use hermes_net::AppendedFile;
use hermes_net::memory::Owner;

use super::flow_record::FlowRecord;
use super::record::Record;
use crate::shown::write_json;
use crate::writer::{Place, Written};

/// Access records that wait for the writer: a fraction of a second's traffic at full speed.
#[doc(alias = "bound")]
const QUEUE: usize = 8192;

/// Bytes of access records that wait: a full queue of usual ones. Clients choose much of a record's
/// content.
#[doc(alias = "bound")]
const QUEUE_BYTES: usize = 12 << 20;

/// A place for access records.
pub struct AccessSink(pub(super) Option<Place>);

impl AccessSink {
    /// Opens the configured file. It is appended to, and made readable by this user only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(access: &Access) -> io::Result<Self> {
        Ok(match access {
            Access::Stdout => Self::writer(Box::new(io::stdout())),
            Access::Stderr => Self::writer(Box::new(io::stderr())),
            Access::Off => Self::off(),
            Access::File(path) => Self(Some(Place::File(AppendedFile::open(&path.0)?))),
        })
    }

    /// Nowhere.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Anything that can be written to.
    #[must_use]
    pub fn writer(writer: Box<dyn io::Write + Send>) -> Self {
        Self(Some(Place::Other(writer)))
    }
}

/// A line of the access log.
#[derive(Debug)]
pub(super) enum AccessLine {
    /// Of an exchange.
    Exchange(Record),
    /// Of a flow of IP.
    Flow(FlowRecord),
}

impl Written for AccessLine {
    const QUEUE: usize = QUEUE;
    const BYTES: Option<usize> = Some(QUEUE_BYTES);
    const THREAD: &'static str = "hermes-access";
    const WHAT: &'static str = "access records";

    fn size(&self) -> usize {
        match self {
            Self::Exchange(record) => record.size(),
            Self::Flow(record) => record.size(),
        }
    }

    fn owner(&self) -> Owner {
        match self {
            Self::Exchange(record) => record.owner(),
            Self::Flow(record) => record.owner(),
        }
    }

    fn write(&self, output: &mut impl io::Write) -> io::Result<()> {
        match self {
            Self::Exchange(record) => write_json(output, record)?,
            Self::Flow(record) => write_json(output, record)?,
        }
        output.write_all(b"\n")
    }
}
