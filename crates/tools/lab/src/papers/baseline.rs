//! QUIC by itself, and HTTP/3 between a client and a server without a proxy: the bound on this machine for everything above it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hermes_net::quic::{ClientConfig, Endpoint, Keys, Record, ServerOptions};
use hermes_net::tls::{ClientOptions, client};

use super::PaperBench;
use crate::hops::download;
use crate::origin;
use crate::peers::{Name, Surroundings, System};
use crate::pki::{ORIGIN, Pki};
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet};
use crate::traffic::{Client, Kind, Link};

pub(super) const HEAD: PageHead = PageHead {
    title: "QUIC and HTTP/3 by themselves",
    command: "papers baseline",
    notes: "",
    words: "One download over loopback. `quinn` is one stream of QUIC of the library that Hermes uses, without HTTP; `quic-go` is a \
            client and a server of HTTP/3 without a proxy; `hermes` is a pair of nodes with HTTP/3 between them, whose client and origin speak \
            HTTP/1.1.",
};

/// Bytes of a download.
const LONG: u64 = 256 << 20;
const SHORT: u64 = 32 << 20;

/// Bytes of one write.
const WRITE: usize = 256 << 10;

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A client and a server of HTTP/3 that are not ours.
const PEER: &str = "quic-go";

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let pki = Pki::create(bench.folder())?;
    let bytes = if bench.options.rounds.short {
        SHORT
    } else {
        LONG
    };
    let peers = std::env::var_os("HERMES_PEERS").map(PathBuf::from);
    let peers = peers.context("HERMES_PEERS names no folder: ./test install builds the peers")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;

    let mut sheet = Sheet::default();
    let mut progress = Progress::new(bench.options.rounds.repeats as usize * 3);
    for round in 0..bench.options.rounds.repeats {
        progress.step("quinn");
        let took = runtime.block_on(raw(&pki, bytes));
        add(&mut sheet, "quinn", bytes, took);
        progress.step(PEER);
        let took = by_program(&peers.join(PEER), &pki, bytes);
        add(&mut sheet, PEER, bytes, took);
        progress.step("hermes");
        let took = runtime.block_on(by_nodes(bench, bytes, round));
        add(&mut sheet, "hermes", bytes, took);
    }
    progress.end();
    Ok(sheet)
}

fn add(sheet: &mut Sheet, system: &str, bytes: u64, took: Result<Duration>) {
    match took {
        Ok(took) => {
            let rate = bytes as f64 * 8.0 / 1e6 / took.as_secs_f64();
            sheet.add(
                "download",
                system,
                Figure::more("throughput", "Mbit/s"),
                rate,
            );
        }
        Err(error) => sheet.failures.push(format!("{system}: {error:#}")),
    }
}

/// One stream of QUIC, between two tasks of this process.
async fn raw(pki: &Pki, bytes: u64) -> Result<Duration> {
    let socket = hermes_net::listen::udp((Ipv4Addr::LOCALHOST, 0).into())?;
    let at = socket.local_addr()?;
    let options = ServerOptions::new(pki.server()?, Keys::random());
    let server = Endpoint::server(socket, 0, &options)?;
    let serving = tokio::spawn(async move { serve(&server, bytes).await });

    let ca = pki.ca();
    let tls = client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })?;
    let config = ClientConfig::new(&tls, false, Record::default())?;
    let endpoint = Endpoint::client(at)?;
    let connection = endpoint.connect(at, ORIGIN, &config).await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    let begin = Instant::now();
    send.write(&mut [Bytes::from_static(b"all")]).await?;
    send.finish()?;
    let mut left = bytes;
    while let Some(piece) = receive.read(WRITE).await? {
        left = left.saturating_sub(piece.len() as u64);
    }
    let took = begin.elapsed();
    ensure!(left == 0, "{left} bytes did not come");

    connection.close(0, b"");
    serving.await??;
    Ok(took)
}

/// Sends so many bytes to the first who asks.
async fn serve(server: &Endpoint, bytes: u64) -> Result<()> {
    let incoming = server.accept().await.context("no one came")?;
    let connection = incoming.accept().await?;
    let (mut send, _asked) = connection.accept_bi().await?;
    let zeros = Bytes::from(vec![0; WRITE]);
    let mut left = bytes;
    while left > 0 {
        let mut next = [zeros.slice(..left.min(WRITE as u64) as usize)];
        left -= next[0].len() as u64;
        // `write` advances past the written bytes.
        while !next[0].is_empty() {
            send.write(&mut next).await?;
        }
    }
    send.finish()?;
    connection.closed().await;
    Ok(())
}

/// A server of HTTP/3; its input is kept open until this is dropped.
struct PeerServer(Child);

impl Drop for PeerServer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A download by programs, less the time of one that loads nothing: that of their start.
fn by_program(program: &Path, pki: &Pki, bytes: u64) -> Result<Duration> {
    let mut server = Command::new(program)
        .arg("server")
        .args([pki.cert(ORIGIN), pki.key(ORIGIN)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let output = server.stdout.take().context("the server has no output")?;
    let server = PeerServer(server);
    let mut port = String::new();
    BufReader::new(output).read_line(&mut port)?;
    let at = format!("127.0.0.1:{}", port.trim());

    let nothing = by_client(program, pki, &at, 1)?;
    let all = by_client(program, pki, &at, bytes)?;
    drop(server);
    Ok(all.saturating_sub(nothing))
}

fn by_client(program: &Path, pki: &Pki, at: &str, bytes: u64) -> Result<Duration> {
    let begin = Instant::now();
    let output = Command::new(program)
        .arg("client")
        .arg(pki.ca())
        .arg(at)
        .args(["get", "web.lab", &format!("/bytes/{bytes}")])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.contains(&bytes.to_string()),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(begin.elapsed())
}

/// Through two nodes.
async fn by_nodes(bench: &PaperBench<'_>, bytes: u64, round: u32) -> Result<Duration> {
    let folder = bench.folder().join(format!("pair{round}"));
    std::fs::create_dir(&folder)?;
    let pair = Pki::create(&folder)?;
    let (_origin, origin) = origin::start(&folder)?;
    let around = Surroundings {
        origin,
        client: Client::new(pair.client()?)?,
        pki: pair,
        folder,
        programs: bench.programs.clone(),
    };
    let system = System::start(Name::Hermes, &around).await?;
    let entry = system
        .entry(Kind::Http, Link::H3)
        .context("there is no link over HTTP/3")?;
    let address: SocketAddr = entry.address;
    let done = tokio::time::timeout(LIMIT, download::run(address, "web.lab", bytes, 1));
    Ok(done.await.context("not done in time")??.time)
}
