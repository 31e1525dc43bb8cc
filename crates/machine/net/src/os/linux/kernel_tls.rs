//! TLS records that the kernel makes and takes apart (kTLS; `Documentation/networking/tls.rst` of Linux), of TLS 1.3.

use std::io::{self, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use libc::{tls_crypto_info, tls12_crypto_info_aes_gcm_128, tls12_crypto_info_aes_gcm_256};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TlsGetRecordType, recvmsg, setsockopt, sockopt,
};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

use crate::os::ControlRecord;

/// Bytes of a record's content (RFC 8446, 5.1).
const RECORD: usize = 16 * 1024;

/// An alert that ends a direction in good order: a warning, `close_notify` (RFC 8446, 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The type of a record with an alert (RFC 8446, 5.1).
const ALERT: u8 = 21;

/// Prepares an open connection for TLS in the kernel (`TCP_ULP`). Until the keys are given, its
/// bytes are unchanged.
///
/// # Errors
/// `NotFound`: the kernel has no TLS, or its module is not loaded.
pub fn attach_tls(stream: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(stream, sockopt::TcpUlp::default(), b"tls")?)
}

/// Gives the kernel the keys of a connection that is [attached](attach_tls). Bytes that are read
/// and written from now on are content.
///
/// # Errors
/// The cipher is not one that every such kernel has: the connection is of no more use then.
pub fn give_tls_keys(stream: &impl AsFd, secrets: &ExtractedSecrets) -> io::Result<()> {
    setsockopt(
        stream,
        sockopt::TcpTlsTx,
        &crypto_info(secrets.tx.0, &secrets.tx.1)?,
    )?;
    setsockopt(
        stream,
        sockopt::TcpTlsRx,
        &crypto_info(secrets.rx.0, &secrets.rx.1)?,
    )?;
    Ok(())
}

/// One direction's cipher and keys: AES-GCM, which every kernel with TLS has. Of its vector of twelve bytes Linux calls the first four salt.
fn crypto_info(
    sequence: u64,
    secrets: &ConnectionTrafficSecrets,
) -> io::Result<sockopt::TlsCryptoInfo> {
    let rec_seq = sequence.to_be_bytes();
    let info = |cipher_type| tls_crypto_info {
        version: libc::TLS_1_3_VERSION,
        cipher_type,
    };

    Ok(match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            let (salt, iv) = salted(iv.as_ref())?;
            sockopt::TlsCryptoInfo::Aes128Gcm(tls12_crypto_info_aes_gcm_128 {
                info: info(libc::TLS_CIPHER_AES_GCM_128),
                iv,
                key: exactly(key.as_ref())?,
                salt,
                rec_seq,
            })
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            let (salt, iv) = salted(iv.as_ref())?;
            sockopt::TlsCryptoInfo::Aes256Gcm(tls12_crypto_info_aes_gcm_256 {
                info: info(libc::TLS_CIPHER_AES_GCM_256),
                iv,
                key: exactly(key.as_ref())?,
                salt,
                rec_seq,
            })
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

fn salted(vector: &[u8]) -> io::Result<([u8; 4], [u8; 8])> {
    let (salt, iv) = vector
        .split_at_checked(4)
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok((exactly(salt)?, exactly(iv)?))
}

fn exactly<const LENGTH: usize>(bytes: &[u8]) -> io::Result<[u8; LENGTH]> {
    bytes
        .try_into()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Takes a record that is no content, for which a read has failed with `EIO`.
///
/// # Errors
/// `WouldBlock`: there is no record.
pub fn take_tls_control(stream: &impl AsRawFd) -> io::Result<ControlRecord> {
    let mut content = vec![0; RECORD];
    let mut buffers = [IoSliceMut::new(&mut content)];
    let mut space = cmsg_space!(u8);
    let descriptor = stream.as_raw_fd();
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(descriptor, &mut buffers, Some(&mut space), flags)?;
    let is_type = |said| match said {
        ControlMessageOwned::TlsGetRecordType(of) => Some(of),
        _ => None,
    };
    let of = message.cmsgs()?.find_map(is_type);
    let length = message.bytes;

    Ok(match of {
        Some(TlsGetRecordType::Alert) => ControlRecord::alert(&content[..length]),
        Some(TlsGetRecordType::Handshake) => ControlRecord::handshake(&content[..length]),
        _ => ControlRecord::Unexpected,
    })
}

/// Tells the peer that nothing follows.
///
/// # Errors
/// `WouldBlock`: there is no room for it now.
pub fn send_close_notify(stream: &impl AsRawFd) -> io::Result<()> {
    let mut alert = CLOSE_NOTIFY;
    let mut part = libc::iovec {
        iov_base: alert.as_mut_ptr().cast(),
        iov_len: alert.len(),
    };
    // As long as a header and a byte, and aligned for it.
    let mut control = [0_u64; 3];

    #[expect(
        unsafe_code,
        reason = "no library knows the control message for the type of a record"
    )]
    // SAFETY: all that the message points to outlives the call; `control` is zeroed, aligned, and has room for one control message with a
    // byte, so that the first header lies in it.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(1) as usize;

        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as usize;
        *libc::CMSG_DATA(header) = ALERT;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(stream.as_raw_fd(), &raw const message, flags)
    };
    Errno::result(sent)?;
    Ok(())
}
