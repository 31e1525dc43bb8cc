//! `hermes-lab video`: RTP from ffmpeg over a link that loses packets, by itself and through tunnels that mend losses, in namespaces.
//!
//! - `picture`: the film, its sender and its receiver, and the errors in the received one. `tap`: when packets passed.
//! - `paper`: the nodes of the paper's topology. `video_server`: the server that is asked for the film there.
//! - `stage`: server, link and viewer. `systems`: the carriers of packets over the link. `goals`: the promised figures.

mod goals;
mod paper;
mod picture;
mod plot;
mod stage;
mod systems;
mod tap;
mod video_server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::emulator::{Loss, Profile, Rate};
use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::{Figure, Sheet, draw_bars};
use picture::Film;
use stage::VideoStage;
use systems::{VideoPrograms, VideoSystem};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct VideoArguments {
    /// Only these systems. Default: all whose programs are installed.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<VideoSystem>,
    /// Only the case of this name, or those whose names begin so, as "1 % lost in bursts".
    #[arg(long)]
    case: Option<String>,
    /// Seconds of the film. Default: 60; 10 in a short run.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: Option<u32>,
    #[command(flatten)]
    options: Options,
}

/// The link: 10 Mbit/s, with a tenth of a second of queue.
const RATE: Rate = Rate {
    bits_per_second: 10_000_000,
    queue_bytes: 125_000,
};

/// Seconds of the paper's films.
const USUAL: u32 = 60;
const LONG: u32 = 120;

/// A link that loses packets, as a case.
#[derive(Debug, Clone, Copy)]
struct VideoCase {
    name: &'static str,
    delay: Duration,
    loss: Loss,
}

impl VideoCase {
    const fn random(name: &'static str, delay: u64, loss: f64) -> Self {
        Self {
            name,
            delay: Duration::from_millis(delay),
            loss: Loss::Random(loss),
        }
    }

    /// The name of its rows: films that are longer than usual have rows of their own.
    fn row(&self, seconds: u32) -> String {
        match seconds {
            ..=USUAL => self.name.to_owned(),
            long => format!("{}, film of {long} s", self.name),
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            delay: self.delay,
            loss: self.loss,
            rate: Some(RATE),
            ..Profile::default()
        }
    }
}

/// All cases; a delay is that of one way.
const CASES: [VideoCase; 6] = [
    VideoCase::random("1 % lost", 10, 0.01),
    VideoCase::random("3 % lost", 10, 0.03),
    VideoCase::random("5 % lost", 10, 0.05),
    VideoCase::random("10 % lost", 10, 0.10),
    VideoCase {
        name: "1 % lost in bursts of 5",
        delay: Duration::from_millis(10),
        loss: Loss::Bursts {
            begin: 0.002,
            end: 0.2,
        },
    },
    VideoCase::random("3 % lost, 100 ms", 100, 0.03),
];

/// The case of a short run.
const SHORT: usize = 1;

const FRAMES: &str = "frames of the film";
const BROKEN: &str = "macroblocks in error";
const LOST: &str = "packets lost";
const OVERTAKEN: &str = "packets behind later ones";
const BYTES: &str = "bytes on the link, of the film";
const DELAY: &str = "delay beside the link, median";
const LATEST: &str = "delay beside the link, 99 %";

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &VideoArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        let systems = VideoSystem::ALL.map(VideoSystem::name);
        draw_bars(&sheet, &systems, &plot::PANELS, &folder.join("video.svg"))?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &VideoArguments, sheet: &mut Sheet) -> Result<()> {
    let rounds = &arguments.options.rounds;
    let built = Programs::provide(&[Name::Hermes], arguments.options.output.hermes.as_deref())?;
    let programs = VideoPrograms {
        hermes: built.hermes,
        srt: PathBuf::from("srt-live-transmit"),
    };
    let systems = match arguments.systems.is_empty() {
        false => arguments.systems.clone(),
        true => VideoSystem::installed(&programs),
    };
    let cases = match &arguments.case {
        Some(name) => named(name),
        None if rounds.short => vec![&CASES[SHORT]],
        None => Vec::from_iter(&CASES),
    };
    ensure!(!cases.is_empty(), "no case has this name");
    let seconds = arguments
        .seconds
        .unwrap_or(if rounds.short { 10 } else { USUAL });
    let film = Film::make(seconds)?;

    let mut progress = Progress::new(rounds.repeats as usize * cases.len());
    for round in 1..=rounds.repeats {
        for case in &cases {
            progress.step(&format!("round {round}: {}", case.name));
            let seed = rounds.seed + u64::from(round);
            let measured = measure(case, &systems, &programs, &film, seed);
            if let Err(error) = measured.map(|figures| {
                let row = case.row(seconds);
                for (system, figures) in systems.iter().zip(figures) {
                    figures.add(sheet, &row, system.name());
                }
            }) {
                sheet.failures.push(format!("{}: {error:#}", case.name));
            }
        }
    }
    progress.end();
    Ok(())
}

/// The case of this name, or else those whose names begin so.
fn named(name: &str) -> Vec<&'static VideoCase> {
    let whole = CASES.iter().find(|case| case.name == name);
    match whole {
        Some(case) => vec![case],
        None => CASES
            .iter()
            .filter(|case| case.name.starts_with(name))
            .collect(),
    }
}

/// The figures of one system.
struct VideoFigures {
    frames: f64,
    broken: usize,
    lost: usize,
    overtaken: usize,
    bytes: f64,
    delay: Duration,
    latest: Duration,
}

impl VideoFigures {
    fn add(&self, sheet: &mut Sheet, case: &str, system: &str) {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        sheet.add(case, system, Figure::more(FRAMES, "%"), self.frames * 100.0);
        sheet.add(case, system, Figure::less(BROKEN, ""), self.broken as f64);
        sheet.add(case, system, Figure::less(LOST, ""), self.lost as f64);
        sheet.add(
            case,
            system,
            Figure::less(OVERTAKEN, ""),
            self.overtaken as f64,
        );
        sheet.add(case, system, Figure::less(BYTES, "times"), self.bytes);
        sheet.add(
            case,
            system,
            Figure::less(DELAY, "ms"),
            milliseconds(self.delay),
        );
        sheet.add(
            case,
            system,
            Figure::less(LATEST, "ms"),
            milliseconds(self.latest),
        );
    }
}

/// All systems at once, each over a link of its own.
fn measure(
    case: &VideoCase,
    systems: &[VideoSystem],
    programs: &VideoPrograms,
    film: &Film,
    seed: u64,
) -> Result<Vec<VideoFigures>> {
    let mut stages = Vec::new();
    for system in systems {
        let stage = VideoStage::lay(*system, programs, &case.profile(), seed);
        stages.push(stage.with_context(|| system.name())?);
    }
    for stage in &mut stages {
        stage.play(film)?;
    }
    let figures = stages.into_iter().map(|stage| {
        let name = stage.system.name();
        stage.end(film).context(name)
    });
    figures.collect()
}
