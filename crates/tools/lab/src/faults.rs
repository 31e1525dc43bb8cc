//! `hermes-lab link`: runs a program at one end of a link with faults.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::emulator::wire::{End, Wire};
use crate::emulator::{Loss, Profile, Rate, Schedule};
use crate::topology::Topology;

/// Addresses of the two ends.
const NEAR: &str = "10.9.0.1/24";
const FAR: &str = "10.9.0.2/24";

/// Options of the command. Both directions are alike; the far end is 10.9.0.2.
#[derive(Debug, clap::Args)]
pub struct LinkArguments {
    /// Delay of each direction, e.g. `20ms`.
    #[arg(long, default_value = "0ms", value_parser = humantime::parse_duration)]
    delay: Duration,
    /// How much the delay varies, up and down.
    #[arg(long, default_value = "0ms", value_parser = humantime::parse_duration)]
    jitter: Duration,
    /// Share of packets that is lost, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// Mean length of the bursts in which they are lost; without it each is lost by itself.
    #[arg(long, value_parser = burst)]
    burst: Option<f64>,
    /// Megabits a second.
    #[arg(long)]
    rate: Option<f64>,
    /// Bytes that may wait where there is a rate.
    #[arg(long, default_value_t = 64_000)]
    queue: usize,
    /// Share of packets that overtake others, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    reorder: f64,
    /// How long the link is up, before it is down.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    up: Duration,
    /// How long it is down after that; without it, it is always up.
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration)]
    down: Duration,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Program at the far end, as one word that a shell understands; it ends with the other.
    #[arg(long)]
    far: Option<String>,
    /// Program at the near end.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<String>,
}

/// Runs the program: its exit code.
pub fn run(arguments: &LinkArguments) -> ExitCode {
    match run_program(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("hermes-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_program(arguments: &LinkArguments) -> Result<u8> {
    let mut topology = Topology::new();
    topology.add("near")?;
    topology.add("far")?;
    let profile = profile(arguments);

    let end = |name, device, address| {
        Ok::<_, anyhow::Error>(End {
            namespace: topology.namespace(name)?,
            device,
            address,
            profile: &profile,
        })
    };

    let wire = Wire::lay(
        end("near", "far", NEAR)?,
        end("far", "near", FAR)?,
        arguments.seed,
    )?;
    let far = arguments.far.as_ref().map(|line| {
        topology
            .namespace("far")?
            .command("sh")
            .args(["-c", line])
            .spawn()
            .context("sh")
    });

    let mut far = far.transpose()?;
    let (program, words) = arguments
        .program
        .split_first()
        .context("no program is named")?;
    let status = topology
        .namespace("near")?
        .command(program)
        .args(words)
        .status()
        .with_context(|| program.clone())?;

    if let Some(far) = &mut far {
        far.kill()?;
        far.wait()?;
    }

    drop(wire);
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

fn profile(arguments: &LinkArguments) -> Profile {
    let LinkArguments {
        delay,
        jitter,
        loss,
        burst,
        rate,
        queue,
        reorder,
        up,
        down,
        ..
    } = arguments;
    Profile {
        delay: *delay,
        jitter: *jitter,
        loss: match burst {
            None => Loss::Random(*loss),
            // The share that is lost is begin / (begin + end), the mean length of a burst is 1 / end.
            Some(length) => Loss::Bursts {
                begin: (loss / (1.0 - loss) / length).min(1.0),
                end: 1.0 / length,
            },
        },
        rate: rate.map(|megabits| Rate {
            bits_per_second: (megabits * 1e6) as u64,
            queue_bytes: *queue,
        }),
        reorder: *reorder,
        turn: None,
        schedule: Schedule {
            offset: Duration::ZERO,
            up: *up,
            down: *down,
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "expected a number")?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("expected a number from 0 to 1".to_owned())
    }
}

fn burst(text: &str) -> Result<f64, String> {
    let length: f64 = text.parse().map_err(|_| "expected a number")?;
    if length >= 1.0 {
        Ok(length)
    } else {
        Err("a burst is at least one packet long".to_owned())
    }
}
