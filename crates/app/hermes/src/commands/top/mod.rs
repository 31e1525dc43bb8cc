//! `hermes top`: what one or several nodes are busy with, live on the whole screen, or once for scripts.
//!
//! Plain control sequences and a dozen lines of terminal settings do what is needed here, so there is no library of
//! widgets in the binary.

mod caches;
mod keys;
mod rates;
mod sample;
mod screen;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

use keys::{Key, Keys};
use rates::Rates;
use sample::{Sample, samples};
use screen::Screen;

/// The interval of the screen, and of its rates.
const REFRESH: Duration = Duration::from_secs(1);

/// Arguments of `hermes top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Admin sockets of nodes. Default: all nodes that run here.
    #[arg(value_name = "SOCKET", conflicts_with_all = ["node", "admin"])]
    sockets: Vec<PathBuf>,
    /// Measure for a second and show that, as it is done where the output is no terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    which: Which,
}

impl Top {
    fn sockets(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.sockets.is_empty() {
            return Ok(self.sockets.clone());
        }
        if self.which.admin.is_some() || self.which.node.is_some() {
            return Ok(vec![self.which.socket()?]);
        }

        let running = admin::all();
        if running.is_empty() {
            Ok(vec![self.which.socket()?])
        } else {
            Ok(running)
        }
    }
}

/// Shows it once, or every second until `q` or Ctrl-C.
///
/// # Errors
/// When no node can be reached.
pub async fn run(top: &Top, output: Output) -> Result<(), Failure> {
    let sockets = top.sockets()?;
    let first = samples(&sockets).await;
    if let Some(failure) = sample::unreachable(&first) {
        return Err(failure);
    }

    if top.once || output.json || !output.terminal {
        sleep(REFRESH).await;
        let rates = Rates::between(&first, &samples(&sockets).await);
        if output.json {
            output.value(&rates);
        } else {
            output.line(Screen::default().text(&rates, None).trim_end());
        }

        return Ok(());
    }

    let keys = Keys::open()?;
    output.raw(screen::ENTER);
    tokio::select! {
        () = live(&sockets, first, keys, output) => {}
        _ = tokio::signal::ctrl_c() => {}
    }

    output.raw(screen::LEAVE);
    Ok(())
}

/// Draws until `q`.
async fn live(sockets: &[PathBuf], mut before: Vec<Sample>, mut keys: Keys, output: Output) {
    let mut screen = Screen::new(output.colours());
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut rates = Rates::between(&before, &before);

    loop {
        output.raw(&screen.frame(&rates));
        tokio::select! {
            _ = ticks.tick() => {
                let now = samples(sockets).await;
                if !screen.paused {
                    rates = Rates::between(&before, &now);
                    screen.remember(&rates);
                }
                before = now;
            }
            key = keys.next() => match key {
                Key::Quit => return,
                Key::Sort => screen.sort = screen.sort.next(),
                Key::Pause => screen.paused = !screen.paused,
                Key::Other => {}
            }
        }
    }
}
