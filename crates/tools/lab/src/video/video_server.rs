//! The video server of the paper: it is asked for a film by HTTP, and streams that to its proxy.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::paper::{TOKEN, USER_PORT, VIDEO_PORT};
use super::tap::enter;
use crate::topology::Namespace;

/// The film that is asked for.
const FILM: &str = "/film.ts";

/// How long a request may take to come.
const ASKED_LIMIT: Duration = Duration::from_secs(20);

/// A running server. It ends with the process: its thread waits for requests.
pub(super) struct VideoServer {
    asked: Receiver<String>,
}

impl VideoServer {
    /// Begins to listen within a namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the port is taken.
    pub(super) fn begin(namespace: &Namespace) -> Result<Self> {
        let path = std::fs::File::open(namespace.path())?;
        let (tell, asked) = channel();
        let (ready, is_ready) = channel();
        spawn(move || {
            let address = SocketAddr::from(([127, 0, 0, 1], VIDEO_PORT));
            let listener = enter(&path).and_then(|()| Ok(TcpListener::bind(address)?));
            let listener = match listener {
                Ok(listener) => listener,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            for stream in listener.incoming().flatten() {
                // A client that is gone asks for nothing.
                if let Ok(film) = answer(stream)
                    && tell.send(film).is_err()
                {
                    return;
                }
            }
        });
        is_ready.recv()??;
        Ok(Self { asked })
    }

    /// Has the user ask for the film, with a wrong token first; returns when the server is to stream it.
    ///
    /// # Errors
    /// The wrong token is good enough, or the right one is not.
    pub(super) fn ask(&self, user: &Namespace) -> Result<()> {
        let refused = request(user, "Bearer other")?;
        ensure!(refused == "403", "a wrong token is answered with {refused}");
        let early = self.asked.recv_timeout(Duration::ZERO);
        ensure!(
            early == Err(RecvTimeoutError::Timeout),
            "the server was asked with a wrong token"
        );

        let allowed = request(user, TOKEN)?;
        ensure!(allowed == "200", "the film is answered with {allowed}");
        let film = self.asked.recv_timeout(ASKED_LIMIT);
        ensure!(film.context("the server is not asked")? == FILM);
        Ok(())
    }
}

/// The status of the answer to a request of the user's.
fn request(user: &Namespace, token: &str) -> Result<String> {
    let proxy = format!("http://127.0.0.1:{USER_PORT}");
    let field = format!("authorization: {token}");
    let film = format!("http://VIDEO{FILM}");
    user.run(&[
        "curl",
        "-s",
        "-m",
        "20",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-x",
        &proxy,
        "-H",
        &field,
        &film,
    ])
}

/// Answers a request; the path that it asks for.
fn answer(stream: TcpStream) -> Result<String> {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().context("no request")??;
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    let path = first.split(' ').nth(1);
    Ok(path.context("no path")?.to_owned())
}
