//! An association of UDP at a proxy of SOCKS6: by its port for datagrams where that answers, or by its connection
//! (draft-olteanu-intarea-socks-6-11, 7.3).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use hermes_http::{Incoming, Outgoing};
use hermes_net::{RecvBatch, Stream, UdpError, UdpSocket};
use hermes_proto::datagram::encode_udp_capsule;
use hermes_proto::socks::SocksTarget;
use hermes_proto::socks6::{
    Socks6AssociationContent, Socks6AssociationMessage, decode_association_message,
    encode_datagram_header, push_datagram,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::Wanted;
use super::association::{Payloads, is_of, passed_on, sent};

/// How long the proxy may take to confirm that a datagram has come to its port, for each of those that ask. After them its connection is used.
#[doc(alias = "bound")]
const CONFIRMATION: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(700)];

/// An association for one target.
pub(super) struct Relayed6 {
    /// By its end the association ends.
    control: Stream,
    /// Bytes of the control connection that were not read yet.
    buffer: BytesMut,
    /// Towards the port of the proxy, where that answers.
    socket: Option<UdpSocket>,
    association: u64,
    target: SocksTarget,
}

impl Relayed6 {
    /// After the proxy has begun the association, whose port is at this address, if datagrams may go there.
    pub(super) async fn begin(
        control: Stream,
        association: u64,
        port: Option<SocketAddr>,
        wanted: Wanted<'_>,
    ) -> io::Result<Self> {
        let mut relayed = Self {
            control,
            buffer: BytesMut::new(),
            socket: None,
            association,
            target: wanted.target(),
        };
        if let Some(port) = port {
            let socket = UdpSocket::connected_from(port, &wanted.upstream.links.from).await?;
            if relayed.is_answered(&socket).await? {
                relayed.socket = Some(socket);
            }
        }
        Ok(relayed)
    }

    /// Whether the proxy confirms datagrams at its port.
    async fn is_answered(&mut self, socket: &UdpSocket) -> io::Result<bool> {
        // An empty datagram to nowhere has the proxy know our path, and send none on (7.3.1).
        let nowhere = SocksTarget {
            host: "0.0.0.0".to_owned(),
            port: 0,
        };
        let mut probe = Vec::new();
        push_datagram(
            &encode_datagram_header(self.association, &nowhere),
            b"",
            &mut probe,
        );
        for wait in CONFIRMATION {
            if !sent(socket, &probe).await {
                return Ok(false);
            }
            if let Ok(confirmed) = timeout(wait, self.confirmation()).await {
                return confirmed.map(|()| true);
            }
        }
        // A later confirmation would find us on the other path. Networks that hold a datagram for so long lose the tunnel, not a datagram.
        Ok(false)
    }

    /// Waits for the confirmation.
    async fn confirmation(&mut self) -> io::Result<()> {
        loop {
            let decoded = decode_association_message(&self.buffer).map_err(io::Error::other)?;
            if let Some((message, length)) = decoded {
                let is_confirmed = message.association == self.association
                    && message.content == Socks6AssociationContent::Confirmation;
                self.buffer.advance(length);
                if is_confirmed {
                    return Ok(());
                }
                continue;
            }
            if self.control.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Carries datagrams until one of the sides is gone.
    pub(super) async fn carry(self, mut incoming: Incoming, mut outgoing: Outgoing) {
        let Self {
            control,
            buffer,
            socket,
            association,
            target,
        } = self;
        let header = encode_datagram_header(association, &target);
        let mut payloads = Payloads::new(&mut incoming);
        let (mut read, write) = tokio::io::split(control);
        let mut answers = Answers {
            association,
            target: &target,
            capsules: BytesMut::new(),
            outgoing: &mut outgoing,
        };
        let Some(socket) = socket else {
            tokio::select! {
                _ = leave_by_connection(write, &header, &mut payloads) => {}
                _ = come_by_connection(read, buffer, &mut answers) => {}
            }
            return;
        };
        let mut ignored = [0; 64];
        let ended = async { while read.read(&mut ignored).await.unwrap_or(0) > 0 {} };
        tokio::select! {
            () = leave_by_port(&socket, &header, &mut payloads) => {}
            () = come_by_port(&socket, &mut answers) => {}
            () = ended => {}
        }
    }
}

async fn leave_by_port(socket: &UdpSocket, header: &[u8], payloads: &mut Payloads<'_>) {
    let mut datagram = Vec::new();
    while let Some(payload) = payloads.next().await {
        datagram.clear();
        if push_datagram(header, &payload, &mut datagram) && !sent(socket, &datagram).await {
            return;
        }
    }
}

async fn leave_by_connection(
    mut write: impl AsyncWrite + Unpin,
    header: &[u8],
    payloads: &mut Payloads<'_>,
) -> io::Result<()> {
    let mut message = Vec::new();
    while let Some(payload) = payloads.next().await {
        message.clear();
        push_datagram(header, &payload, &mut message);
        write.write_all(&message).await?;
        write.flush().await?;
    }
    Ok(())
}

async fn come_by_port(socket: &UdpSocket, answers: &mut Answers<'_>) {
    let mut batch = Box::new(RecvBatch::new());
    loop {
        match socket.recv(&mut batch).await {
            Ok(_) => {}
            Err(UdpError::Io(_)) => return,
            // About a datagram that was not delivered, as on any path.
            Err(_) => continue,
        }
        for (_, datagram) in batch.datagrams() {
            // Broken ones are dropped in silence (7.3).
            if let Ok(Some((message, _))) = decode_association_message(datagram) {
                answers.take(&message);
            }
        }
        if !answers.pass_on().await {
            return;
        }
    }
}

async fn come_by_connection(
    mut read: impl AsyncRead + Unpin,
    mut buffer: BytesMut,
    answers: &mut Answers<'_>,
) -> io::Result<()> {
    loop {
        while let Some((message, length)) =
            decode_association_message(&buffer).map_err(io::Error::other)?
        {
            answers.take(&message);
            buffer.advance(length);
        }
        if !answers.pass_on().await || read.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Answers of the target, as capsules for the rest of the node.
struct Answers<'a> {
    association: u64,
    target: &'a SocksTarget,
    capsules: BytesMut,
    outgoing: &'a mut Outgoing,
}

impl Answers<'_> {
    fn take(&mut self, message: &Socks6AssociationMessage<'_>) {
        if let Socks6AssociationContent::Datagram(datagram) = &message.content
            && message.association == self.association
            && is_of(&datagram.peer, self.target)
        {
            // A longer one than a capsule may carry is not made.
            let _ = encode_udp_capsule(datagram.payload, &mut self.capsules);
        }
    }

    /// Passes on those that have come; false where the node has ended the tunnel.
    async fn pass_on(&mut self) -> bool {
        self.capsules.is_empty() || passed_on(&mut self.capsules, self.outgoing).await
    }
}
