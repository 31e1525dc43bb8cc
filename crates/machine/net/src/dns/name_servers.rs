//! Name servers that are asked for another program: its message is passed on unchanged, and so is
//! their answer.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

use super::system::{Source, SystemFiles};
use super::{LOOKUP_LIMIT, PORT};
use crate::descriptors::claim;
use crate::own_mark::marked;

/// How long each server may take before the next is asked.
#[doc(alias = "bound")]
const TURN: Duration = Duration::from_secs(2);

/// The longest message (RFC 1035, section 4.2.2), in bytes.
const LONGEST: usize = u16::MAX as usize;

/// Bytes of a header.
const HEADER: usize = 12;

/// Name servers, of which one after the other is asked until one answers.
#[derive(Clone)]
pub struct NameServers {
    servers: Servers,
}

#[derive(Clone)]
enum Servers {
    Listed(Vec<SocketAddr>),
    System(Arc<Source>),
}

impl NameServers {
    /// These.
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers: Servers::Listed(servers),
        }
    }

    /// The servers of `/etc/resolv.conf`, as it is at each time, but for these addresses.
    pub fn system(except: &[IpAddr]) -> Self {
        let source = Source::follow(SystemFiles::new(except));
        Self {
            servers: Servers::System(Arc::new(source)),
        }
    }

    /// Whether there is no server at the moment.
    pub fn is_empty(&self) -> bool {
        match &self.servers {
            Servers::Listed(servers) => servers.is_empty(),
            Servers::System(source) => source.known().servers.is_empty(),
        }
    }

    async fn servers(&self) -> Vec<SocketAddr> {
        match &self.servers {
            Servers::Listed(servers) => servers.clone(),
            Servers::System(source) => {
                let current = source.current().await;
                let address = |server: &hickory_resolver::config::NameServerConfig| {
                    let first = server.connections.first();
                    let port = first.map_or(PORT, |connection| connection.port);
                    SocketAddr::new(server.ip, port)
                };
                current.servers.iter().map(address).collect()
            }
        }
    }

    /// Asks by UDP; `None` without an answer within some seconds.
    pub async fn ask(&self, message: &[u8]) -> Option<Vec<u8>> {
        let asked = async {
            for server in self.servers().await {
                if let Ok(Ok(answer)) = timeout(TURN, ask_one(server, message)).await {
                    return Some(answer);
                }
            }
            None
        };
        timeout(LOOKUP_LIMIT, asked).await.ok().flatten()
    }

    /// Asks by TCP, as a program does after a truncated answer over UDP; `None` without an answer
    /// within some seconds.
    pub async fn ask_by_tcp(&self, message: &[u8]) -> Option<Vec<u8>> {
        let asked = async {
            for server in self.servers().await {
                if let Ok(Ok(answer)) = timeout(TURN, ask_one_by_tcp(server, message)).await {
                    return Some(answer);
                }
            }
            None
        };
        timeout(LOOKUP_LIMIT, asked).await.ok().flatten()
    }
}

impl fmt::Debug for NameServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.servers {
            Servers::Listed(servers) => servers.fmt(f),
            Servers::System(source) => source.known().servers.fmt(f),
        }
    }
}

/// From a port that no one can guess, and heard from that server alone.
async fn ask_one(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = claim(UdpSocket::bind((any, 0)).await?)?;
    let socket = marked(socket)?;
    socket.connect(server).await?;
    socket.send(message).await?;

    let mut room = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut room).await?;
        if answers(message, &room[..length]) {
            room.truncate(length);
            return Ok(room);
        }
    }
}

async fn ask_one_by_tcp(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let socket = match server {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = marked(claim(socket?)?)?;
    let mut stream = socket.connect(server).await?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), message].concat())
        .await?;

    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    match answers(message, &answer) {
        true => Ok(answer),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Whether a message is the answer to another: of its number, and no question.
fn answers(question: &[u8], answer: &[u8]) -> bool {
    answer.len() >= HEADER && question.get(..2) == Some(&answer[..2]) && answer[2] & 0x80 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: [u8; 12] = [7, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[tokio::test]
    async fn the_answer_of_the_second_comes_back_where_the_first_says_nothing_of_use() {
        let first = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let second = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let servers = NameServers::new(vec![
            first.local_addr().unwrap(),
            second.local_addr().unwrap(),
        ]);
        let serve = async {
            let mut room = [0; 64];
            let (_, client) = first.recv_from(&mut room).await.unwrap();
            // The answer to another question, the question itself, and the beginning of an answer.
            first
                .send_to(&[7, 8, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0], client)
                .await
                .unwrap();
            first.send_to(&QUESTION, client).await.unwrap();
            first.send_to(&[7, 7, 0x81], client).await.unwrap();

            let (length, client) = second.recv_from(&mut room).await.unwrap();
            assert_eq!(room[..length], QUESTION);
            room[2] |= 0x80;
            second.send_to(&room[..length], client).await.unwrap();
        };
        let (answer, ()) = tokio::join!(servers.ask(&QUESTION), serve);
        let answer = answer.unwrap();
        assert_eq!((answer.len(), answer[2]), (QUESTION.len(), 0x81));
    }

    #[tokio::test]
    async fn a_long_answer_comes_by_tcp() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = NameServers::new(vec![server.local_addr().unwrap()]);
        let serve = async {
            let (mut stream, _) = server.accept().await.unwrap();
            assert_eq!(stream.read_u16().await.unwrap(), 12);
            let mut answer = vec![0; 40_000];
            answer[..2].copy_from_slice(&[7, 7]);
            answer[2] = 0x81;
            stream.write_u16(40_000).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        };
        let (answer, ()) = tokio::join!(servers.ask_by_tcp(&QUESTION), serve);
        assert_eq!(answer.unwrap().len(), 40_000);
    }
}
