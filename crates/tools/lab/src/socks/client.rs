//! A client of SOCKS. Each message is one write, and waits for the answer to the one before.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hermes_net::{LocalEnd, connect as net_connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a client comes to its target.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SocksWay {
    /// Without a proxy.
    Direct,
    /// By SOCKS5, without a password.
    Socks5(SocketAddr),
    /// By SOCKS6; the first bytes for the target go with the request.
    Socks6(SocketAddr),
    /// The same by TCP Fast Open: the request opens the connection to the proxy, and the first bytes that to the target.
    Socks6Fast(SocketAddr),
}

/// Connects to the target, sends it these bytes and reads as many.
///
/// # Errors
/// When there is no connection, or other bytes come.
pub(crate) async fn echo(way: SocksWay, target: SocketAddr, said: &[u8]) -> Result<TcpStream> {
    let mut stream = open(way, target, said).await?;
    let mut heard = vec![0; said.len()];
    stream.read_exact(&mut heard).await?;
    ensure!(heard == said, "other bytes came back");
    Ok(stream)
}

/// Connects to the target, and sends it these bytes.
///
/// # Errors
/// When there is no connection.
pub(crate) async fn open(way: SocksWay, target: SocketAddr, said: &[u8]) -> Result<TcpStream> {
    let SocketAddr::V4(v4) = target else {
        bail!("{target} is no address of IPv4");
    };
    let ip = v4.ip().octets();
    let port = v4.port().to_be_bytes();
    match way {
        SocksWay::Direct => {
            let mut stream = connect(target).await?;
            stream.write_all(said).await?;
            Ok(stream)
        }
        SocksWay::Socks5(proxy) => {
            let mut stream = connect(proxy).await?;
            stream.write_all(&[5, 1, 0]).await?;
            let mut method = [0; 2];
            stream.read_exact(&mut method).await?;
            ensure!(method == [5, 0], "another method: {method:?}");
            stream
                .write_all(&[&[5, 1, 0, 1], &ip[..], &port].concat())
                .await?;
            let mut reply = [0; 10];
            stream.read_exact(&mut reply).await?;
            ensure!(reply[..2] == [5, 0], "refused: {reply:?}");
            stream.write_all(said).await?;
            Ok(stream)
        }
        SocksWay::Socks6(proxy) | SocksWay::Socks6Fast(proxy) => {
            let is_fast = matches!(way, SocksWay::Socks6Fast(_));
            let option: &[u8] = if is_fast { &FAST_OPEN } else { &[] };
            let length = u8::try_from(option.len())?;
            let request = [&[6, 1, 0, length], &port[..], &[0, 1], &ip, option, said].concat();
            let mut stream = if is_fast {
                connect_fast(proxy).await?
            } else {
                connect(proxy).await?
            };
            stream.write_all(&request).await?;
            let mut replies = [0; 16];
            stream.read_exact(&mut replies).await?;
            ensure!(
                replies[..4] == [6, 0, 0, 0] && replies[4..6] == [6, 0],
                "refused: {replies:?}"
            );
            Ok(stream)
        }
    }
}

/// Asks for TCP Fast Open towards the target, with any number of bytes (draft-olteanu-intarea-socks-6-11, 8.1.5).
const FAST_OPEN: [u8; 8] = [0, 1, 0, 8, 2 << 6 | 4, 1, 0, 0];

/// Connects with the first bytes that are written, once the kernel has a cookie of the proxy.
async fn connect_fast(address: SocketAddr) -> Result<TcpStream> {
    let end = LocalEnd::ANY.opening_fast(true);
    Ok(net_connect::tcp_from(&[address], Duration::from_secs(20), &end).await?)
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
