//! `hermes-lab hops`: what each hop of a chain costs, in networks of namespaces.

pub mod download;
pub mod measure;
pub mod network;
pub mod plan;
mod plot;
pub(crate) mod qlog;
pub mod show;
pub mod systems;
pub mod targets;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};

use crate::options::Options;
use crate::origin::{self, Addresses};
use crate::peers::{Name, Programs};
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report;
use crate::traffic::Client;
use measure::HopBench;
use network::{Links, Network, origin_address};
use plan::{HopResults, HopSystem, Part, Point};
use systems::{Around, Running};

/// Options of the command. It needs root.
#[derive(Debug, clap::Args)]
pub struct HopArguments {
    /// Only these: experiments, links, ways of making chains, numbers of hops and of transactions, e.g. `datagrams,fast,1,x16`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = HopSystem::ALL)]
    systems: Vec<HopSystem>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
///
/// # Errors
/// When a network cannot be laid, a system cannot be installed or started, a measurement fails, or the results cannot be
/// written. Those of all other measurements are shown and written before.
pub fn run(arguments: &HopArguments) -> Result<()> {
    let options = &arguments.options;
    let mut results = if options.show {
        HopResults::default()
    } else {
        measure_all(arguments)?
    };

    let failed = results.failures.len();
    if let Some(file) = options.earlier() {
        results = results.after(report::load(file)?);
    }

    if let Some(file) = options.later() {
        report::save(&results, file)?;
    }
    let pictures = options
        .svg
        .as_ref()
        .map(|folder| plot::save(&results, folder))
        .transpose()?
        .unwrap_or_default();

    options
        .output
        .publish_page(|| show::page(&results, &pictures))?;

    crate::options::show(&format!(
        "{}\n{}",
        show::print(&results),
        show::summary_line(&results)
    ))?;

    ensure!(failed == 0, "{failed} measurements failed; see above");
    Ok(())
}

/// The programs of these systems.
fn provided(systems: &[HopSystem], given: Option<&Path>) -> Result<Programs> {
    let of = |system| match system {
        HopSystem::Direct => Name::Direct,
        HopSystem::Hermes => Name::Hermes,
        // All peers are installed at once.
        HopSystem::Envoy | HopSystem::MasqueGo => Name::Envoy,
    };
    Programs::provide(&systems.iter().copied().map(of).collect::<Vec<_>>(), given)
}

fn measure_all(arguments: &HopArguments) -> Result<HopResults> {
    let points = plan::points(&arguments.only);
    let used = |system: &&HopSystem| points.iter().any(|point| system.has(*point));
    let systems: Vec<HopSystem> = arguments.systems.iter().filter(used).copied().collect();
    let programs = provided(&systems, arguments.options.output.hermes.as_deref())?;
    let begin = Instant::now();
    let measured = |point: &Point| systems.iter().filter(|system| system.has(*point)).count();
    let steps =
        points.iter().map(measured).sum::<usize>() * arguments.options.rounds.repeats as usize;
    let mut results = HopResults::default();
    let mut progress = Progress::new(steps);

    for links in Links::ALL {
        let points: Vec<_> = points
            .iter()
            .filter(|point| point.links == links)
            .copied()
            .collect();
        if !points.is_empty() {
            let plan = HopPlan {
                links,
                points: &points,
                systems: &systems,
            };
            measure_on(arguments, plan, &programs, &mut progress, &mut results)?;
        }
    }

    progress.end();
    results.runs.push(arguments.options.run(begin));
    Ok(results)
}

/// The measurements over one kind of links.
#[derive(Clone, Copy)]
struct HopPlan<'a> {
    links: Links,
    points: &'a [Point],
    systems: &'a [HopSystem],
}

/// Measures all points over one kind of links. The load comes from a thread that is in the client's namespace.
fn measure_on(
    arguments: &HopArguments,
    plan: HopPlan<'_>,
    programs: &Programs,
    progress: &mut Progress,
    results: &mut HopResults,
) -> Result<()> {
    let network = Network::lay(plan.links)?;
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let pki = Pki::create(folder.path())?;
    let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let (_origin, origin) = origin::start_in(Some(network.origin()?), anywhere, folder.path())?;

    let around = Around {
        network: &network,
        origin,
        pki: &pki,
        folder: folder.path(),
        programs,
    };

    let mut running = plan
        .systems
        .iter()
        .map(|system| Running::launch(*system, &around))
        .collect::<Result<Vec<_>>>()?;
    let client = Client::new(pki.client()?)?;
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            network.client()?.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                for system in &mut running {
                    system.ready(&client).await?;
                }
                let load = HopLoad {
                    points: plan.points,
                    running: &running,
                    around: &around,
                    client: &client,
                };
                load.rounds(arguments, progress, results).await;

                Ok(())
            })
        });
        load.join()
            .map_err(|_| anyhow!("the thread of the load panicked"))?
    })
}

/// The origin as the client sees it.
fn seen(origin: Addresses) -> Addresses {
    let at = |port: SocketAddr| SocketAddr::from((origin_address(0), port.port()));
    Addresses {
        http: at(origin.http),
        tls: at(origin.tls),
        tcp: at(origin.tcp),
        udp: at(origin.udp),
    }
}

/// The load on running systems.
struct HopLoad<'a> {
    points: &'a [Point],
    running: &'a [Running],
    around: &'a Around<'a>,
    client: &'a Client,
}

impl HopLoad<'_> {
    async fn rounds(
        &self,
        arguments: &HopArguments,
        progress: &mut Progress,
        results: &mut HopResults,
    ) {
        let mut random = fastrand::Rng::with_seed(arguments.options.rounds.seed);
        let origin = seen(self.around.origin);
        for round in 1..=arguments.options.rounds.repeats {
            let each = self
                .points
                .iter()
                .flat_map(|point| self.running.iter().map(move |running| (*point, running)));
            let mut order: Vec<_> = each
                .filter(|(point, running)| running.system.has(*point))
                .collect();
            random.shuffle(&mut order);

            for (point, running) in order {
                let step = format!("round {round}: {}: {point}", running.system);
                progress.step(&step);
                let bench = HopBench {
                    point,
                    running,
                    around: self.around,
                    client: self.client,
                    origin,
                    short: arguments.options.rounds.short,
                };

                match bench.run().await {
                    Ok(measured) => {
                        for (figure, value) in measured {
                            results.add(point, running.system, figure, value);
                        }
                    }
                    Err(error) => results.failures.push(format!("{step}: {error:#}")),
                }
            }
        }
    }
}
