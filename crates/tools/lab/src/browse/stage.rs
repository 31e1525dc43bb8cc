//! Clients behind slow links, two hops and a server, each in a namespace, with one system in them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::addresses::{
    FIRST_HOP_FAR, NETWORKS, SECOND_HOP, SECOND_HOP_FAR, SERVER, client_address, hop_address,
    network,
};
use super::browser::{Browser, PageTimes};
use super::case::BrowseCase;
use super::page::{self, PAGE, SMALL};
use super::systems::{BrowseMachine, BrowsePrograms, BrowseSystem, ENTRY};
use crate::emulator::wire::{End, Wire};
use crate::emulator::{Loss, Profile, Rate};
use crate::pki::{ORIGIN, Pki};
use crate::process::Process;
use crate::topology::{Namespace, Plug, Topology};

const CLEAR: u16 = 8000;
const SECURE: u16 = 8001;

/// The link of the thesis: 1 Mbit/s, here with half a second of queue.
const RATE: Rate = Rate {
    bits_per_second: 1_000_000,
    queue_bytes: 62_500,
};
/// One way, of 200 ms there and back.
const DELAY: Duration = Duration::from_millis(100);
/// Of the packets, in each direction.
const LOSS: f64 = 0.1;

/// How long nodes and server may take until they answer over the link.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The networks of one system, and all that runs in them.
pub(super) struct BrowseStage<'a> {
    pub system: BrowseSystem,
    case: &'a BrowseCase,
    programs: &'a BrowsePrograms,
    /// Bytes of the page.
    bytes: usize,
    _processes: Vec<Process>,
    _links: Vec<Wire>,
    topology: Topology,
    folder: tempfile::TempDir,
}

impl<'a> BrowseStage<'a> {
    /// Lays the networks, starts server and nodes, and waits until the server answers each client.
    ///
    /// # Errors
    /// When a network cannot be laid, or a program does not start.
    pub(super) fn lay(
        system: BrowseSystem,
        programs: &'a BrowsePrograms,
        case: &'a BrowseCase,
        seed: u64,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        Pki::create(folder.path())?;
        let web = folder.path().join("web");
        fs::create_dir(&web)?;
        let bytes = page::write(&web, case.size)?;

        let (topology, links) = laid(case.clients, seed)?;
        let mut stage = Self {
            system,
            case,
            programs,
            bytes,
            _processes: Vec::new(),
            _links: links,
            topology,
            folder,
        };
        stage._processes = stage.processes()?;
        for client in 0..case.clients {
            stage.wait(client)?;
        }
        Ok(stage)
    }

    /// The server, and the nodes of the system.
    fn processes(&self) -> Result<Vec<Process>> {
        self.control_congestion()?;
        let folder = self.folder.path();
        let server = self.topology.namespace("server")?;
        let file = folder.join("nginx.conf");
        fs::write(&file, nginx(folder))?;
        let home = folder.to_string_lossy();
        let file = file.to_string_lossy();
        let words = ["-p", &home, "-e", "stderr", "-c", &file];
        let nginx = Process::start_in(Some(server), "nginx", folder, Path::new("nginx"), &words)?;

        let mut started = vec![nginx];
        let mut node = |at: &str, name: &str, text: String| -> Result<()> {
            let file = folder.join(format!("{name}.yaml"));
            fs::write(&file, text)?;
            let words = ["run".as_ref(), file.as_os_str()];
            let at = Some(self.topology.namespace(at)?);
            started.push(Process::start_in(
                at,
                name,
                folder,
                &self.programs.hermes,
                &words,
            )?);
            Ok(())
        };
        if self.system.hops() > 1 {
            node("hop2", "second", self.system.at_second_hop(folder))?;
        }
        if self.system.hops() > 0 {
            node("hop1", "first", self.system.at_first_hop(folder))?;
            for client in 0..self.case.clients {
                let name = client_name(client);
                node(&name, &name, self.system.at_client(client, folder))?;
            }
        }
        Ok(started)
    }

    /// Chooses the congestion control of the TCP connections that cross a link: by their routes, as a namespace cannot choose each by `sysctl`.
    fn control_congestion(&self) -> Result<()> {
        let machine = |name: &str| self.topology.namespace(name);
        let beside = self.system.congestion(BrowseMachine::BesideLink);
        for client in 0..self.case.clients {
            let name = client_name(client);
            let hop = hop_address(client);
            let near = client_address(client);
            let link = network(client);
            machine(&name)?.ip(&format!(
                "route change {NETWORKS} via {hop} congctl {beside}\n\
                 route change {link} dev link proto kernel scope link src {near} congctl {beside}\n"
            ))?;
            machine("hop1")?.ip(&format!(
                "route change {link} dev {name} proto kernel scope link src {hop} congctl {beside}\n"
            ))?;
        }
        let server = self.system.congestion(BrowseMachine::Server);
        machine("server")?.ip(&format!(
            "route change {NETWORKS} via {SECOND_HOP_FAR} congctl {server}\n"
        ))
    }

    /// Waits until a small file comes: the nodes are connected from then on, as those of a user are who has used them.
    fn wait(&self, client: u8) -> Result<()> {
        let namespace = self.topology.namespace(&client_name(client))?;
        let url = self.url(SMALL);
        let mut words = vec!["curl", "-fsk", "--max-time", "10", "-o", "/dev/null"];
        if self.system.hops() > 0 {
            words.extend(["-x", ENTRY]);
        }
        words.push(&url);

        let limit = Instant::now() + START_LIMIT;
        while Instant::now() < limit {
            if namespace.run(&words).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut said = String::new();
        for process in &self._processes {
            said += &format!("{}:\n{}\n", process.name(), process.log());
        }
        bail!("the server does not answer:\n{said}")
    }

    fn url(&self, name: &str) -> String {
        match self.system {
            BrowseSystem::DirectHttp2 => format!("https://{SERVER}:{SECURE}/{name}"),
            _ => format!("http://{SERVER}:{CLEAR}/{name}"),
        }
    }

    /// Opens the page in so many browsers of each client at once.
    ///
    /// # Errors
    /// A browser cannot be started.
    pub(super) fn open(&self, browsers: u8) -> Result<PageLoads> {
        let mut started = Vec::new();
        for client in 0..self.case.clients {
            let namespace = self.topology.namespace(&client_name(client))?;
            for _ in 0..browsers {
                started.push(self.browser(namespace)?);
            }
        }
        Ok(PageLoads(started))
    }

    fn browser(&self, namespace: &Namespace) -> Result<Browser> {
        let mut command = namespace.command(&self.programs.chromium);
        match self.system.hops() {
            0 => command.arg("--no-proxy-server"),
            _ => command.arg(format!("--proxy-server={ENTRY}")),
        };
        // A profile of its own, so that nothing is in the browser's cache.
        let profile = tempfile::Builder::new()
            .prefix("profile")
            .tempdir_in(self.folder.path())?
            .keep();
        let url = self.url(PAGE);
        Browser::start(command, profile, &url, self.case.limit, self.bytes)
    }
}

/// Browsers that load the page.
pub(super) struct PageLoads(Vec<Browser>);

impl PageLoads {
    /// Waits for all; `None` stands for a page that was not whole in time.
    ///
    /// # Errors
    /// A document cannot be read.
    pub(super) fn end(&mut self) -> Result<Vec<Option<PageTimes>>> {
        self.0.iter_mut().map(Browser::end).collect()
    }
}

fn client_name(client: u8) -> String {
    format!("client{client}")
}

fn laid(clients: u8, seed: u64) -> Result<(Topology, Vec<Wire>)> {
    let mut topology = Topology::new();
    for name in ["hop1", "hop2", "server"] {
        topology.add(name)?;
    }
    for client in 0..clients {
        topology.add(&client_name(client))?;
    }
    let cables = [
        [("hop1", FIRST_HOP_FAR), ("hop2", SECOND_HOP)],
        [("hop2", SECOND_HOP_FAR), ("server", SERVER)],
    ];
    for [(one, near), (other, far)] in cables {
        let near = format!("{near}/24");
        let far = format!("{far}/24");
        let plug = |namespace, address| Plug { namespace, address };
        topology.cable(plug(one, &near), plug(other, &far))?;
    }
    topology.route("hop1", "10.80.2.0/24", SECOND_HOP)?;
    topology.route("hop2", NETWORKS, FIRST_HOP_FAR)?;
    topology.route("server", NETWORKS, SECOND_HOP_FAR)?;

    let links = (0..clients).map(|client| {
        let link = link(&topology, client, seed.wrapping_add(u64::from(client)));
        topology.route(&client_name(client), NETWORKS, &hop_address(client))?;
        link
    });
    let links = links.collect::<Result<_>>()?;
    Ok((topology, links))
}

/// The slow link of a client.
fn link(topology: &Topology, client: u8, seed: u64) -> Result<Wire> {
    let profile = Profile {
        delay: DELAY,
        loss: Loss::Random(LOSS),
        rate: Some(RATE),
        ..Profile::default()
    };
    let near = format!("{}/24", client_address(client));
    let far = format!("{}/24", hop_address(client));
    let name = client_name(client);
    let end = |at, device, address| -> Result<End<'_>> {
        Ok(End {
            namespace: topology.namespace(at)?,
            device,
            address,
            profile: &profile,
        })
    };
    let link = Wire::lay(end(&name, "link", &near)?, end("hop1", &name, &far)?, seed);
    link.with_context(|| name.clone())
}

/// A server as Debian has it, whose answers may be stored.
fn nginx(folder: &Path) -> String {
    let pki = Pki::open(folder);
    let folder = folder.display();
    format!(
        "daemon off;\nuser root;\npid {folder}/nginx.pid;\nworker_processes 1;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n  \
         fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n  \
         types {{ text/html html; text/css css; text/javascript js; image/svg+xml svg; }}\n  \
         server {{\n    listen {SERVER}:{CLEAR};\n    listen {SERVER}:{SECURE} ssl http2;\n    \
         ssl_certificate {};\n    ssl_certificate_key {};\n    root {folder}/web;\n    \
         add_header Cache-Control \"public, max-age=3600\";\n  }}\n}}\n",
        pki.cert(ORIGIN).display(),
        pki.key(ORIGIN).display()
    )
}
