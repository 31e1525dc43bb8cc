//! Queues of netfilter (`linux/netfilter/nfnetlink_queue.h`), over netlink.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, sendto};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::super::{PacketQueue, PacketQueueReader, PacketVerdict, QueuedSyn, SynEnds};
use super::netlink::{
    Message, NLM_F_ACK, NLM_F_REQUEST, ROOM, answered, append_attribute, attributes,
    netlink_socket, read,
};

/// Subsystem, and types of messages.
const NFNL_SUBSYS_QUEUE: u16 = 3;
const NFQNL_MSG_PACKET: u16 = 0;
const NFQNL_MSG_VERDICT: u16 = 1;
const NFQNL_MSG_CONFIG: u16 = 2;

/// Attributes.
const NFQA_CFG_CMD: u16 = 1;
const NFQA_CFG_PARAMS: u16 = 2;
const NFQA_CFG_QUEUE_MAXLEN: u16 = 3;
const NFQA_CFG_MASK: u16 = 4;
const NFQA_CFG_FLAGS: u16 = 5;
const NFQA_PACKET_HDR: u16 = 1;
const NFQA_VERDICT_HDR: u16 = 2;
const NFQA_MARK: u16 = 3;
const NFQA_PAYLOAD: u16 = 10;

const NFQNL_CFG_CMD_BIND: u8 = 1;
const NFQNL_COPY_PACKET: u8 = 2;
/// Packets pass when the queue is full, rather than being dropped.
const NFQA_CFG_F_FAIL_OPEN: u32 = 1;

const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

/// Bytes of a packet that are looked at: the headers of IPv6 and TCP, or of IPv4 with its longest options and TCP.
const LOOKED_AT: u32 = 100;

/// Bytes of the socket's buffer: each packet takes about a kilobyte of it.
#[doc(alias = "bound")]
const BUFFER: usize = 16 << 20;

/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;

impl PacketQueue {
    /// Takes a queue of this number, which holds `most` packets.
    ///
    /// # Errors
    /// `ResourceBusy`: another process has it. `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no such queues.
    pub fn open(number: u16, most: u32) -> io::Result<Self> {
        let socket = netlink_socket(Some(NETFILTER), SocketFlags::NONBLOCK, 0)?;
        // Where it is refused, fewer packets are told at once.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);

        // `struct nfqnl_msg_config_cmd` and `struct nfqnl_msg_config_params`.
        let bind = [NFQNL_CFG_CMD_BIND, 0, 0, 0];
        configure(&socket, number, &[(NFQA_CFG_CMD, &bind)])?;
        let mut params = LOOKED_AT.to_be_bytes().to_vec();
        params.push(NFQNL_COPY_PACKET);
        let flags = NFQA_CFG_F_FAIL_OPEN.to_be_bytes();
        configure(
            &socket,
            number,
            &[
                (NFQA_CFG_PARAMS, &params),
                (NFQA_CFG_QUEUE_MAXLEN, &most.to_be_bytes()),
                (NFQA_CFG_MASK, &flags),
                (NFQA_CFG_FLAGS, &flags),
            ],
        )?;
        Ok(Self { socket, number })
    }

    /// Registers it with the current runtime.
    ///
    /// # Errors
    /// When the runtime refuses the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn reader(self) -> io::Result<PacketQueueReader> {
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that could close what is registered; an OwnedFd does not"
        )]
        let socket = AsyncFd::with_interest(self.socket, Interest::READABLE)?;
        Ok(PacketQueueReader {
            socket,
            number: self.number,
        })
    }
}

impl PacketQueueReader {
    /// Waits for packets, and hands each over; `room` is for a few kilobytes of them. Dropping the future loses none.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn read(&self, room: &mut [u8], mut each: impl FnMut(QueuedSyn)) -> io::Result<()> {
        loop {
            let mut ready = self.socket.readable().await?;
            let received = ready.try_io(|socket| {
                let (length, _) = recv(socket, &mut *room, RecvFlags::empty())?;
                Ok(length)
            });
            match received {
                Ok(Ok(length)) => {
                    let messages = room.get(..length).unwrap_or_default();
                    // Errors are about verdicts on packets that are gone.
                    let _ = read(messages, |kind, content| {
                        if kind == (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET
                            && let Some(syn) = queued(content)
                        {
                            each(syn);
                        }
                    });
                    return Ok(());
                }
                // The buffer was full: those packets passed.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Says what becomes of a packet.
    ///
    /// # Errors
    /// The kernel's error; one about a packet that is gone is not told.
    pub fn decide(&self, packet: u32, verdict: PacketVerdict) -> io::Result<()> {
        let code = match verdict {
            PacketVerdict::Pass(_) => NF_ACCEPT,
            PacketVerdict::Drop => NF_DROP,
        };
        // `struct nfqnl_msg_verdict_hdr`.
        let header = [code.to_be_bytes(), packet.to_be_bytes()].concat();
        let mut content = head(self.number);
        append_attribute(&mut content, NFQA_VERDICT_HDR, &header);
        if let PacketVerdict::Pass(mark) = verdict {
            append_attribute(&mut content, NFQA_MARK, &mark.to_be_bytes());
        }
        let message = Message {
            kind: (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT,
            flags: NLM_F_REQUEST,
            content,
        };
        let kernel = SocketAddrNetlink::new(0, 0);
        // The packet goes on within this call.
        sendto(
            self.socket.get_ref(),
            &message.bytes(),
            SendFlags::DONTWAIT,
            &kernel,
        )?;
        Ok(())
    }
}

fn configure(socket: &OwnedFd, number: u16, settings: &[(u16, &[u8])]) -> io::Result<()> {
    let mut content = head(number);
    for (kind, value) in settings {
        append_attribute(&mut content, *kind, value);
    }
    let message = Message {
        kind: (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_CONFIG,
        flags: NLM_F_REQUEST | NLM_F_ACK,
        content,
    };
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &message.bytes(), SendFlags::empty(), &kernel)?;
    let mut room = vec![0; ROOM];
    // The kernel answers within the send.
    let (length, _) = recv(socket, &mut room[..], RecvFlags::DONTWAIT)?;
    answered(&room[..length])
}

/// `struct nfgenmsg`: any family, version 0, and the number of the queue.
fn head(number: u16) -> Vec<u8> {
    [&[0, 0][..], &number.to_be_bytes()].concat()
}

fn queued(content: &[u8]) -> Option<QueuedSyn> {
    let all = content.get(NFGENMSG..)?;
    let of = |wanted: u16| {
        let mut values = attributes(all).filter(|(kind, _)| *kind == wanted);
        values.next().map(|(_, value)| value)
    };
    let number = |bytes: &[u8]| bytes.first_chunk().map(|four| u32::from_be_bytes(*four));
    Some(QueuedSyn {
        packet: of(NFQA_PACKET_HDR).and_then(number)?,
        mark: of(NFQA_MARK).and_then(number).unwrap_or_default(),
        ends: of(NFQA_PAYLOAD).and_then(SynEnds::of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_by_its_number_though_its_bytes_are_of_no_use() {
        let mut content = head(7);
        let header = [9_u32.to_be_bytes(), [0x08, 0, 0, 0]].concat();
        append_attribute(&mut content, NFQA_PACKET_HDR, &header);
        append_attribute(&mut content, NFQA_MARK, &0x4a12_3400_u32.to_be_bytes());
        append_attribute(&mut content, NFQA_PAYLOAD, &[0x45, 0, 0]);
        let expected = QueuedSyn {
            packet: 9,
            mark: 0x4a12_3400,
            ends: None,
        };
        assert_eq!(queued(&content), Some(expected));
        for length in 0..content.len() {
            // Whatever is cut off, nothing panics.
            let _ = queued(&content[..length]);
        }
    }
}
