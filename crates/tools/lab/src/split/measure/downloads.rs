//! Downloads: by size, over new and kept connections; large ones, with and without offloads; over a lossy and long path.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Result, ensure};
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Socket, Type};

use super::{LIMIT, SplitMeasuring};
use crate::origin::SIZED;
use crate::report::{Figure, median, quantile};

pub(in crate::split) const LARGE: &str = "256 MB";
pub(in crate::split) const HUGE: &str = "1 GB";
pub(in crate::split) const BOUNDED: &str = "4 GB where the network is the limit";
pub(in crate::split) const LOSSY: &str = "4 MB over a lossy and long path";
const WITHOUT_OFFLOADS: &str = "64 MB, one segment at a time";

const MEGABYTE: u64 = 1_000_000;

/// Sizes, and their cases over new connections and over one that is kept.
const SIZES: [(u64, &str, &str); 4] = [
    (1000, "1 KB, new connection", "1 KB, kept connection"),
    (100_000, "100 KB, new connection", "100 KB, kept connection"),
    (MEGABYTE, "1 MB, new connection", "1 MB, kept connection"),
    (
        16 * MEGABYTE,
        "16 MB, new connection",
        "16 MB, kept connection",
    ),
];

/// Bytes of one read.
const READ: usize = 1 << 20;

impl SplitMeasuring<'_> {
    pub(super) fn by_size(&mut self) -> Result<()> {
        let most = match self.counts.is_long {
            true => u64::MAX,
            false => MEGABYTE,
        };
        for (bytes, new, kept) in SIZES.into_iter().filter(|(bytes, ..)| *bytes <= most) {
            // As many bytes of the largest as of the others would take all the time.
            let count = match bytes > MEGABYTE {
                true => self.counts.downloads.div_ceil(10),
                false => self.counts.downloads,
            };
            let times = (0..count).map(|_| self.timed_download(bytes));
            let times: Vec<f64> = times.collect::<Result<_>>()?;
            self.add(new, Figure::less("p50", "ms"), median(&times));
            self.add(new, Figure::less("p90", "ms"), quantile(&times, 0.9));

            let mut stream = self.downloading()?;
            let times = (0..count).map(|_| timed(&mut stream, bytes));
            let times: Vec<f64> = times.collect::<Result<_>>()?;
            self.add(kept, Figure::less("p50", "ms"), median(&times));
            self.add(kept, Figure::less("p90", "ms"), quantile(&times, 0.9));
        }
        Ok(())
    }

    pub(super) fn large(&mut self) -> Result<()> {
        self.rate(LARGE, 256 * MEGABYTE, self.counts.large)?;
        if self.counts.is_long {
            self.rate(HUGE, 1000 * MEGABYTE, 1)?;
        }
        Ok(())
    }

    pub(super) fn without_offloads(&mut self) -> Result<()> {
        self.rate(WITHOUT_OFFLOADS, 64 * MEGABYTE, self.counts.large)
    }

    pub(super) fn bounded(&mut self) -> Result<()> {
        let time = self.timed_download(4000 * MEGABYTE)?;
        self.add(BOUNDED, Figure::less("time", "s"), time / 1e3);
        Ok(())
    }

    pub(super) fn lossy(&mut self) -> Result<()> {
        let times = (0..self.counts.lossy).map(|_| self.timed_download(4 * MEGABYTE));
        let times: Vec<f64> = times.collect::<Result<_>>()?;
        self.add(LOSSY, Figure::less("p50", "s"), median(&times) / 1e3);
        Ok(())
    }

    fn rate(&mut self, case: &'static str, bytes: u64, count: usize) -> Result<()> {
        let used = self.processor_time();
        let mut rates = Vec::new();
        for _ in 0..count {
            let milliseconds = self.timed_download(bytes)?;
            rates.push(bytes as f64 * 8.0 / 1e6 / milliseconds);
        }
        self.add(case, Figure::more("rate", "Gbit/s"), median(&rates));
        if let Some((after, used)) = self.processor_time().zip(used) {
            let gigabytes = (bytes * count as u64) as f64 / 1e9;
            let cost = (after - used).as_secs_f64() / gigabytes;
            self.add(case, Figure::less("processor", "s/GB"), cost);
        }
        Ok(())
    }

    /// Milliseconds until all bytes have come over a connection of their own, with the time to connect.
    fn timed_download(&self, bytes: u64) -> Result<f64> {
        let begin = Instant::now();
        download(&mut self.downloading()?, bytes)?;
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }

    /// A connection that asks for bytes.
    pub(super) fn downloading(&self) -> Result<TcpStream> {
        let mut stream = self.connect()?;
        stream.write_all(&[SIZED])?;
        Ok(stream)
    }

    /// The same, from this address of the client.
    pub(super) fn downloading_from(&self, client: Ipv4Addr) -> Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((client, 0)).into())?;
        socket.connect_timeout(&self.target.into(), LIMIT)?;
        let mut stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(&[SIZED])?;
        Ok(stream)
    }
}

/// Milliseconds until all bytes have come.
pub(super) fn timed(stream: &mut TcpStream, bytes: u64) -> Result<f64> {
    let begin = Instant::now();
    download(stream, bytes)?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn download(stream: &mut TcpStream, bytes: u64) -> Result<()> {
    stream.write_all(&bytes.to_be_bytes())?;
    let mut room = vec![0; READ];
    let mut left = bytes;
    while left > 0 {
        // The kernel drops the bytes: copying them would take time from the systems.
        let most = READ.min(usize::try_from(left).unwrap_or(READ));
        let (_, read) = recv(&*stream, &mut room[..most], RecvFlags::TRUNC)?;
        ensure!(read > 0, "the download ended");
        left -= read as u64;
    }
    Ok(())
}
