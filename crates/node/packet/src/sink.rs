//! Where one direction of packets leads.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::h3::DatagramSender;
use hermes_http::{Outgoing, Reset, StreamError};
use hermes_observe::Exchange;
use hermes_proto::batch::Layout;
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::datagram::DatagramFormat;
use tokio::sync::Mutex;

use super::PacketEnd;
use super::device::{Device, DeviceUpkeep};
use super::shared::Shared;

/// Where packets go.
#[derive(Clone)]
pub enum Sink {
    /// An end that this node has itself.
    End(PacketEnd),
    /// Capsules, and QUIC datagrams where there are any.
    Stream(CapsuleSink),
}

/// A stream of capsules that is written, and the QUIC datagrams beside it. It is shared by the directions that lead there: a writer holds
/// it to the end of a capsule.
#[derive(Clone)]
pub struct CapsuleSink {
    pub(crate) stream: Arc<Mutex<Shared>>,
    pub(crate) quic: Option<DatagramSender>,
    /// The format of its packets.
    pub(crate) format: DatagramFormat,
}

impl CapsuleSink {
    /// Bytes of the context ID before each packet.
    pub(crate) fn context_size(&self) -> usize {
        self.format.prefix().len()
    }
}

impl Sink {
    /// Writes a stream of such packets.
    pub fn stream(outgoing: Outgoing, format: DatagramFormat) -> Self {
        let quic = outgoing.datagrams();
        Self::Stream(CapsuleSink {
            stream: Arc::new(Mutex::new(Shared::new(outgoing))),
            quic,
            format,
        })
    }

    /// Writes whole capsules there, which carry no packets, or gives them to a device; other ends have no use for any.
    ///
    /// # Errors
    /// The stream broke, or is within a capsule.
    pub async fn say(&self, capsules: Bytes) -> Result<(), StreamError> {
        let Self::Stream(to) = self else {
            self.tell_device(capsules);
            return Ok(());
        };
        let mut stream = to.stream.lock().await;
        if stream.is_between() {
            stream.data(capsules, true).await?;
            stream.flush().await?;
        }
        Ok(())
    }

    /// Whether no one is writing there, and the next writer begins with a capsule.
    pub fn is_between(&self) -> bool {
        match self {
            Self::End(_) => true,
            Self::Stream(to) => to.stream.try_lock().is_ok_and(|stream| stream.is_between()),
        }
    }

    /// Ends a stream; the others have no end.
    pub async fn finish(&self) -> Result<(), StreamError> {
        match self {
            Self::End(_) => Ok(()),
            Self::Stream(to) => to.stream.lock().await.finish().await,
        }
    }

    /// Where QUIC datagrams go beside it, and how many bytes of them are no packet.
    pub(crate) fn quic(&self) -> Option<(&DatagramSender, usize)> {
        match self {
            Self::End(_) => None,
            Self::Stream(to) => to.quic.as_ref().map(|quic| (quic, to.context_size())),
        }
    }

    /// The largest packet that it takes, where that is known.
    pub(crate) fn largest(&self) -> Option<usize> {
        match self {
            Self::End(end) => end.largest(),
            Self::Stream(_) => None,
        }
    }

    /// The batches that suit it.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::End(end) => end.layout(),
            Self::Stream(_) => Layout::UDP,
        }
    }

    /// Gives a device capsules of this node's own.
    fn tell_device(&self, capsules: Bytes) {
        let Some(device) = self.device() else {
            return;
        };
        let mut decoder = CapsuleDecoder::new(device.format().max_capsule());
        decoder.push(capsules);
        while let Ok(Some(capsule)) = decoder.next() {
            // These capsules carry no packets, and the device ignores invalid ones.
            let _ = device.handle_capsule(capsule.kind, &capsule.value);
        }
    }

    /// Tells a device why the tunnel ends that it asked for.
    pub fn ended(&self, reason: &str) {
        if let Some(device) = self.device() {
            device.ended(reason);
        }
    }

    /// A device's work while its tunnel is open; its path `carries` packets of some length.
    pub fn upkeep<'a>(
        &'a self,
        carries: impl Fn() -> usize + Send + 'a,
    ) -> Option<DeviceUpkeep<'a>> {
        self.device()?.upkeep(Box::new(carries))
    }

    /// The device that it is.
    pub(crate) fn device(&self) -> Option<&dyn Device> {
        match self {
            Self::End(PacketEnd::Device(device, _)) => Some(&**device),
            Self::End(_) | Self::Stream(_) => None,
        }
    }

    /// Accounts for packets that were dropped before the tunnel saw them.
    pub fn settle(&self, exchange: &Exchange) {
        if let Self::End(end) = self {
            end.settle(exchange);
        }
    }

    /// Resets a stream.
    pub fn reset(&self, reset: Reset) {
        if let Self::Stream(to) = self
            && let Ok(mut outgoing) = to.stream.try_lock()
        {
            outgoing.reset(reset);
        }
    }
}
