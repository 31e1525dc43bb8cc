//! The programs of `hermes exec --capture`: each gives the node the device of a network that it has made for itself, for which it needs no
//! right, and is known by the user whom the kernel names at the other end of the socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::captures::{CaptureEntry, CapturedBy};
use hermes_admit::entrance::Entrance;
use hermes_config::model::{Capture, SystemUsers};
use hermes_net::os::{local_process, watch_process};
use hermes_net::stream::Transport;
use hermes_net::tun::{account_name, own_uid};
use hermes_net::{PeerAddress, Stream, Watch};
use tokio::io::AsyncReadExt;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::greeting::{self, NotCaptured};
use super::{Captured, of_program, space};
use crate::held::Held;

/// How long the names of accounts may be looked up.
#[doc(alias = "bound")]
const LOOKUP: Duration = Duration::from_secs(5);

/// Serves one program, to its end.
pub(crate) async fn connection(entrance: Entrance, stream: Stream, watch: Watch, held: Held) {
    let info = stream.info().clone();
    let (Transport::Unix(mut unix), _, _) = stream.into_parts() else {
        return;
    };
    let uid = match info.peer {
        PeerAddress::Unix { uid } => uid,
        PeerAddress::Ip(_) => None,
    };

    let begun = begin(&entrance, uid, &unix).await;
    let (entrance, capture, entry) = match begun {
        Ok(begun) => begun,
        Err(reason) => {
            let error = reason.error.as_str();
            tracing::info!(listener = %entrance.rules.name, uid, error, "refuses a program");
            return greeting::refuse(&mut unix, &reason).await;
        }
    };
    let captured = Captured::new(entrance, of_program(&info), &capture);
    let listener = captured.entrance.rules.name.clone();
    let served = serve(captured, &capture, &mut unix, &entry, &watch);
    let ended = tokio::select! {
        ended = served => ended,
        () = watch.forced() => Ok("the node ends".to_owned()),
    };

    match ended {
        Ok(reason) => tracing::debug!(%listener, uid, reason, "a captured program has ended"),
        Err(error) => {
            tracing::info!(%listener, uid, %error, "refuses a program");
            let error = error.to_string();
            let remedy = Some("start it with `hermes exec --capture -- CMD` of this version");
            greeting::refuse(&mut unix, &NotCaptured { error, remedy }).await;
        }
    }
    drop(held);
}

/// A program that may be captured: its entrance, the settings, and its place among the others.
async fn begin(
    entrance: &Entrance,
    uid: Option<u32>,
    unix: &UnixStream,
) -> Result<(Entrance, Capture, CaptureEntry), NotCaptured> {
    let refused = |error: String, remedy| NotCaptured { error, remedy };
    let mut entrance = entrance.clone();
    let rules = entrance.renew().clone();
    let Some(capture) = rules.config.capture().cloned() else {
        return Err(refused("the node captures nothing here".to_owned(), None));
    };
    let Some(uid) = uid else {
        let error = "the kernel does not say whose program it is".to_owned();
        return Err(refused(error, None));
    };

    let users: Arc<[SystemUsers]> = capture.users.iter().cloned().collect();
    if !may(uid, users).await {
        let error = format!("the node captures no programs of user {uid}");
        let remedy = Some("the node's administrator adds the user to `users` of the listener");
        return Err(refused(error, remedy));
    }
    if capture.login {
        let Some(name) = name(uid).await else {
            let error = format!("no account of this machine has the number {uid}");
            let remedy = Some("leave `login` out, and name the user with `user` of the listener");
            return Err(refused(error, remedy));
        };
        entrance = entrance.of_user(&name);
    }

    let pid = local_process(unix).ok().map(|process| process.pid);
    let by = CapturedBy::Program { uid, pid };
    let captures = entrance.worker.shared.devices.captures();
    let entry = captures.enter(&rules.name, by);
    let entry = entry.map_err(|error| refused(error.to_string(), Some("end some of them")))?;
    Ok((entrance, capture, entry))
}

async fn serve(
    captured: Captured,
    capture: &Capture,
    unix: &mut UnixStream,
    entry: &CaptureEntry,
    watch: &Watch,
) -> io::Result<String> {
    let process = watch_process(unix).map(registered).transpose()?;
    let queue = greeting::ask(unix, &space(capture)).await?;
    greeting::carried(unix).await?;
    captured
        .carry(queue, entry, watch, ended(process, unix))
        .await
}

/// A descriptor in the run time of this worker.
fn registered(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and the same descriptor, for as long as it lives, and `AsyncFd` keeps it.
    #[expect(unsafe_code, reason = "tokio trusts a descriptor's type no longer")]
    let registered = unsafe { AsyncFd::register(descriptor) };
    registered.map_err(|error| error.into_parts().1)
}

/// Resolves when the program has ended, and all programs that it has started and that kept the socket.
async fn ended(process: Option<AsyncFd<OwnedFd>>, unix: &mut UnixStream) {
    if let Some(process) = process {
        // An error means as much: it cannot be waited for.
        let _ = process.readable().await;
    }
    let mut room = [0; 64];
    // Nothing is expected from it.
    while matches!(unix.read(&mut room).await, Ok(1..)) {}
}

/// Whether programs of this user are taken: those of root and of the node's own user always.
async fn may(uid: u32, users: Arc<[SystemUsers]>) -> bool {
    if uid == 0 || uid == own_uid() {
        return true;
    }
    let numbers = users.iter().any(
        |one| matches!(one, SystemUsers::Numbers(first, last) if (*first..=*last).contains(&uid)),
    );
    if numbers {
        return true;
    }
    let has_names = users.iter().any(|one| matches!(one, SystemUsers::Name(_)));
    let name = if has_names { name(uid).await } else { None };
    let is_named = |name: String| {
        users
            .iter()
            .any(|one| matches!(one, SystemUsers::Name(own) if *own == name))
    };
    name.is_some_and(is_named)
}

/// The name of an account. Not on a worker: the system may ask a directory on another machine.
async fn name(uid: u32) -> Option<String> {
    let asked = tokio::task::spawn_blocking(move || account_name(uid));
    timeout(LOOKUP, asked).await.ok()?.ok()?
}
