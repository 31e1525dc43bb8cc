//! Connections on which a test chooses every byte.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::eventually::PATIENCE;
use crate::head::Head;

/// A TCP connection, with the bytes that were read ahead.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// How the far end ended its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Orderly (FIN).
    Closed,
    /// By a reset (RST).
    Reset,
}

impl From<TcpStream> for Raw {
    fn from(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }
}

impl Raw {
    /// Connects.
    ///
    /// # Panics
    /// When nothing listens.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Connects from this address of the machine.
    ///
    /// # Panics
    /// When the address is no own one, or nothing listens.
    pub fn connect_from(from: SocketAddr, address: SocketAddr) -> Self {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(socket.into())
    }

    /// Connects with little room for bytes that are not read: what the far end sends has to wait there.
    ///
    /// # Panics
    /// When nothing listens.
    pub fn connect_narrow(address: SocketAddr) -> Self {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        // Before it connects: the window is agreed upon then.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(socket.into())
    }

    /// Connects, if someone listens.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        TcpStream::connect(address).ok().map(Self::over)
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Whether something is there to be read, now or within `time`; at the end of the stream, too.
    pub fn has_more_within(&self, time: Duration) -> bool {
        if !self.unread.is_empty() {
            return true;
        }

        self.stream.set_read_timeout(Some(time)).unwrap();
        let came = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        came
    }

    /// Opens a tunnel with CONNECT; `fields` are whole lines such as `user: bob\r\n`.
    ///
    /// # Errors
    /// The head of a response that is no success.
    pub fn tunnel(proxy: SocketAddr, authority: &str, fields: &str) -> Result<Self, Head> {
        let mut raw = Self::connect(proxy);
        raw.send(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n"
        ));
        let head = raw.head();

        if head.status() == 200 {
            Ok(raw)
        } else {
            Err(head)
        }
    }

    /// Sends.
    ///
    /// # Panics
    /// When the connection is broken.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The same connection once more, for another thread.
    ///
    /// # Panics
    /// When the system has no descriptor.
    pub fn other(&self) -> Self {
        Self {
            stream: self.stream.try_clone().unwrap(),
            unread: Vec::new(),
        }
    }

    /// Reads and discards all further bytes in a thread of its own: for a client that only sends.
    ///
    /// # Panics
    /// When the system has no descriptor.
    pub fn forget_incoming(&self) {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
    }

    /// Sends as much as the far end takes: it may already have answered and closed.
    pub fn send_if_open(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()));
    }

    /// Reads a head, up to and with its empty line.
    ///
    /// # Panics
    /// When the connection ends before.
    pub fn head(&mut self) -> Head {
        let end = loop {
            if let Some(end) = self
                .unread
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break end + 4;
            }

            let read = self.fill().unwrap();
            assert!(
                read > 0,
                "closed within a head: {:?}",
                String::from_utf8_lossy(&self.unread)
            );
        };

        let head: Vec<u8> = self.unread.drain(..end).collect();
        Head::parse(&String::from_utf8_lossy(&head))
    }

    /// Reads a head, and the content that its `Content-Length` announces.
    ///
    /// # Panics
    /// As [`Self::head`].
    pub fn response(&mut self) -> (Head, Vec<u8>) {
        let head = self.head();
        let length = head
            .field("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let content = self.exactly(length);
        (head, content)
    }

    /// Reads this many bytes.
    ///
    /// # Panics
    /// When the connection ends before.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            let read = self.fill().unwrap();
            assert!(
                read > 0,
                "closed after {} of {length} bytes",
                self.unread.len()
            );
        }
        self.unread.drain(..length).collect()
    }

    /// Sends bytes and reads as many, or finds how the connection ended.
    ///
    /// # Errors
    /// How it ended. A reset may show in a write or in a read.
    ///
    /// # Panics
    /// When nothing comes.
    pub fn exchange(&mut self, bytes: &[u8]) -> Result<Vec<u8>, End> {
        if self.stream.write_all(bytes).is_err() {
            return Err(End::Reset);
        }
        while self.unread.len() < bytes.len() {
            match self.fill() {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(End::Reset),
                Err(error) => panic!("{error} after {} bytes", self.unread.len()),
            }
        }

        Ok(self.unread.drain(..bytes.len()).collect())
    }

    /// The beginning of the bytes so far, for a person, and how many there are: attackers read megabytes.
    fn told(&self) -> String {
        let beginning = &self.unread[..self.unread.len().min(1024)];
        let text = String::from_utf8_lossy(beginning);
        format!("{} bytes: {text:?}", self.unread.len())
    }

    /// Reads to the end, and returns the bytes and the kind of end.
    ///
    /// # Panics
    /// When the end does not come.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let end = loop {
            match self.fill() {
                Ok(0) => break End::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
                Err(error) => panic!("{error} after {}", self.told()),
            }
        };
        (std::mem::take(&mut self.unread), end)
    }

    /// Reads until `done` holds for the bytes so far, or the far end has no more.
    ///
    /// # Panics
    /// When neither happens.
    pub fn until(&mut self, done: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        while !done(&self.unread) {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error} after {}", self.told()),
            }
        }
        std::mem::take(&mut self.unread)
    }

    /// Ends the direction to the far end.
    pub fn finish(&mut self) {
        // The far end may have closed altogether.
        drop(self.stream.shutdown(Shutdown::Write));
    }

    /// Breaks the connection off with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }

    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 64 * 1024];
        let read = self.stream.read(&mut buffer)?;
        self.unread.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}
