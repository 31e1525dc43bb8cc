//! How long the exchanges of a burst of clients take in the mean, with their standard deviation: as the figure of the paper has it, before an
//! origin that takes connections as they come, and before one that takes them slowly.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::PaperBench;
use crate::origin;
use crate::peers::{Name, Surroundings, System};
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, SheetGoal, deviation};
use crate::traffic::{Client, Entry, Kind, Link};

pub(super) const HEAD: PageHead = PageHead {
    title: "Completion of bursts",
    command: "papers completion",
    notes: "",
    words: "So many clients begin at once, each with one small exchange: the mean of the times until each has its answer, and their standard \
            deviation. `direct` has no proxy, `hermes` two nodes, with HTTP/2 between them. The slow origin accepts a connection every \
            half millisecond, as one does that has much to do for each.",
};

/// Clients of each burst.
const LONG: &[usize] = &[200, 400, 600, 800, 1000];
const SHORT: &[usize] = &[200, 1000];

/// Those at which goals are judged.
const MOST: usize = 1000;

/// Between two bursts, so that connections that end do not disturb the next one.
const REST: Duration = Duration::from_millis(200);

/// Time between two connections that a slow origin accepts.
const SLOW: Duration = Duration::from_micros(500);

/// The paper's gain without proxies at 1000 clients, as a share of the proxies' time; negative where it was slower without them.
const PAPER: [(Kind, f64); 4] = [
    (Kind::Http, -0.184),
    (Kind::Tcp, -1.105),
    (Kind::Connect, 0.232),
    (Kind::Udp, 0.722),
];

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut sheet = Sheet::default();
    for (origin, every) in [("quick origin", Duration::ZERO), ("slow origin", SLOW)] {
        runtime.block_on(before_origin(bench, origin, every, &mut sheet))?;
    }
    Ok(sheet)
}

async fn before_origin(
    bench: &PaperBench<'_>,
    name: &str,
    every: Duration,
    sheet: &mut Sheet,
) -> Result<()> {
    let folder = tempfile::tempdir_in(bench.folder())?;
    let pki = Pki::create(folder.path())?;
    let client = Client::new(pki.client()?)?;
    let (origin_process, origin) = origin::start_slow(folder.path(), every)?;
    let around = Surroundings {
        origin,
        pki,
        folder: folder.path().to_owned(),
        programs: bench.programs.clone(),
        client,
    };
    let mut systems = Vec::new();
    for name in [Name::Direct, Name::Hermes] {
        systems.push(System::start(name, &around).await?);
    }

    let bursts = if bench.options.rounds.short {
        SHORT
    } else {
        LONG
    };
    let repeats = bench.options.rounds.repeats;
    let mut progress = Progress::new(repeats as usize * bursts.len() * PAPER.len() * 2);
    let mut random = fastrand::Rng::with_seed(bench.options.rounds.seed);
    for _ in 0..repeats {
        for clients in bursts {
            for (kind, _) in PAPER {
                random.shuffle(&mut systems);
                for system in &systems {
                    let Some(entry) = system.entry(kind, Link::H2) else {
                        continue;
                    };
                    let case = case(name, kind, *clients);
                    progress.step(&format!("{case} on {}", system.name.text()));
                    let done = burst(&around.client, entry, *clients).await;
                    add(sheet, &case, system.name.text(), &done);
                }
            }
        }
    }

    progress.end();
    // The proxies first, so that none of them complains about the origin.
    drop(systems);
    drop(origin_process);
    Ok(())
}

fn case(origin: &str, kind: Kind, clients: usize) -> String {
    format!("{origin}, {}, {clients} clients", kind.name())
}

/// Times of the clients in milliseconds, and how many had no answer.
struct Burst {
    times: Vec<f64>,
    failed: usize,
}

async fn burst(client: &Client, entry: &Entry, clients: usize) -> Burst {
    tokio::time::sleep(REST).await;
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let client = client.clone();
        let entry = entry.clone();
        tasks.spawn(async move {
            client.once(&entry).await?;
            anyhow::Ok(begin.elapsed().as_secs_f64() * 1e3)
        });
    }

    let done = tasks.join_all().await;
    let failed = done.iter().filter(|done| done.is_err()).count();
    Burst {
        times: done.into_iter().filter_map(Result::ok).collect(),
        failed,
    }
}

fn add(sheet: &mut Sheet, case: &str, system: &str, burst: &Burst) {
    if let Some((mean, deviation)) = deviation(&burst.times) {
        sheet.add(case, system, Figure::less("mean completion", "ms"), mean);
        let figure = Figure::less("standard deviation", "ms");
        sheet.add(case, system, figure, deviation);
    }
    let failed = Figure::less("failures", "exchanges");
    sheet.add(case, system, failed, burst.failed as f64);
}

/// At the largest burst the overlay should cost no more than the paper's did.
pub(super) fn goals(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for origin in ["quick origin", "slow origin"] {
        for (kind, share) in PAPER {
            let case = case(origin, kind, MOST);
            let of = |system| sheet.of(&case, system, "mean completion");
            let (Some(own), Some(none)) = (of("hermes"), of("direct")) else {
                continue;
            };
            let bound = 1.0 / (1.0 - share);
            let value = own.median / none.median;
            goals.push(SheetGoal {
                words: format!("{case}: mean to that without a proxy, at most {bound:.2}"),
                value,
                is_reached: value <= bound,
            });
        }
    }
    goals
}
