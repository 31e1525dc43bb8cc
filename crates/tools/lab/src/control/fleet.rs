//! Agents by the thousand: each with a key, a certificate, a folder and a connection of its own, and no data plane.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hermes_agent::enrol::{self, JoinOptions};
use hermes_agent::{Agent, ControllerUrl, Membership, State, agreements, attend};
use hermes_api::{Hash, Name, Token};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::controller::memory_folder;
use super::journal::{Journal, Noted};
use super::nodes::OVERLAY;
use super::operator::Operator;

/// Joins at once: fewer than a controller takes of one source.
const JOINS: usize = 32;

/// How long agents may take to put their first documents in force.
const FIRST: Duration = Duration::from_secs(300);

/// One agent in so many is a proxy with a document of its own; the others are devices, which share one.
const PROXIES: usize = 100;

/// How many agents of which kind there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// All agents: an ingress, proxies and devices.
    pub(super) agents: usize,
    /// Proxies other than the ingress.
    pub(super) proxies: usize,
}

impl Shape {
    /// The shape of a fleet of this size.
    pub(super) fn of(agents: usize) -> Self {
        Self {
            agents,
            proxies: (agents / PROXIES).max(2),
        }
    }

    /// The name of a proxy.
    pub(super) fn proxy(number: usize) -> String {
        format!("edge-{number}")
    }

    /// The overlay's resources: an ingress, and proxies with a service and a name each.
    pub(super) fn resources(self) -> String {
        let mut text = OVERLAY.to_owned() + &ingress(8443);
        for number in 0..self.proxies {
            let name = Self::proxy(number);
            let spec = format!("{{ listen: \"0.0.0.0:8443\", reach: [\"{name}.example:8443\"] }}");
            text += &resource("Node", &name, &spec);
            text += &service(number, 8000);
            text += &resource("Name", &name, &format!("{{ service: {name} }}"));
        }
        text + &resource("Policy", "all", "{ rules: [{ allow: true }] }")
    }

    /// Users and names of the tokens, in the order of the agents.
    fn tokens(self) -> impl Iterator<Item = (Option<String>, Option<String>)> {
        let proxies = (0..self.proxies).map(Self::proxy);
        let nodes = std::iter::once("hub".to_owned()).chain(proxies);
        let nodes = nodes.map(|name| (None, Some(name)));
        let devices = self.agents.saturating_sub(self.proxies + 1);
        let devices = (0..devices).map(|number| {
            // Some users have several devices.
            let user = format!("user-{}", number / 2);
            (Some(user), Some(format!("device-{number}")))
        });
        nodes.chain(devices)
    }
}

/// The resource of the ingress, which devices reach at this port: every device's document has it.
pub(super) fn ingress(port: u16) -> String {
    let spec =
        format!("{{ listen: \"0.0.0.0:8443\", reach: [\"hub.example:{port}\"], ingress: true }}");
    resource("Node", "hub", &spec)
}

/// The resource of a proxy's service at this port: only the proxy's document has it.
pub(super) fn service(number: usize, port: u16) -> String {
    let name = Shape::proxy(number);
    let spec = format!("{{ at: [{{ node: {name}, address: \"127.0.0.1:{port}\" }}] }}");
    resource("Service", &name, &spec)
}

fn resource(kind: &str, name: &str, spec: &str) -> String {
    let mut text = "---\napiVersion: hermes/v1\n".to_owned();
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "kind: {kind}\nmetadata: {{ name: {name} }}\nspec: {spec}"
    );
    text
}

/// A member that does not attend yet.
#[derive(Clone)]
struct Joined {
    state: State,
    membership: Membership,
    agent: usize,
}

/// Agents, and the run time that they share.
pub(super) struct Fleet {
    pub(super) journal: Arc<Journal>,
    folder: TempDir,
    port: u16,
    /// Each agent has an address of its own, as those of different networks have.
    has_addresses: bool,
    joined: Vec<Joined>,
    attending: Vec<AbortHandle>,
    runtime: AgentThread,
}

impl Fleet {
    /// Without agents, for the controller at this port.
    ///
    /// # Errors
    /// No folder or thread can be made.
    pub(super) fn new(port: u16, has_addresses: bool) -> Result<Self> {
        Ok(Self {
            journal: Arc::default(),
            folder: memory_folder()?,
            port,
            has_addresses,
            joined: Vec::new(),
            attending: Vec::new(),
            runtime: AgentThread::start()?,
        })
    }

    /// Joins all agents of a shape; returns the time for each token and for each join, in milliseconds, many joins being under way at once.
    ///
    /// # Errors
    /// One of them does not become a member.
    pub(super) fn join(&mut self, shape: Shape, operator: &Operator) -> Result<[f64; 2]> {
        let begin = Instant::now();
        let mut tokens = Vec::with_capacity(shape.agents);
        for (user, name) in shape.tokens() {
            let token = operator.token(user.as_deref(), name.as_deref())?;
            tokens.push((token, name.unwrap_or_default()));
        }
        let each = |time: Duration| time.as_secs_f64() * 1e3 / shape.agents as f64;
        let made = each(begin.elapsed());

        let begin = Instant::now();
        self.join_with(tokens)?;
        Ok([made, each(begin.elapsed())])
    }

    /// Joins one more device; returns its number.
    ///
    /// # Errors
    /// It does not become a member.
    pub(super) fn join_one(&mut self, operator: &Operator, name: &str) -> Result<usize> {
        let token = operator.token(Some("late"), Some(name))?;
        self.join_with(vec![(token, name.to_owned())])?;
        Ok(self.joined.len() - 1)
    }

    fn join_with(&mut self, tokens: Vec<(String, String)>) -> Result<()> {
        let room = Arc::new(Semaphore::new(JOINS));
        let mut joins = Vec::with_capacity(tokens.len());
        for (token, name) in tokens {
            let agent = self.journal.add();
            let state = State::new(self.folder.path().join(&name));
            let url = self.url(agent);
            let room = room.clone();
            joins.push(self.runtime.handle.spawn(async move {
                let _room = room.acquire().await?;
                let membership = join(&state, &url, &token, &name).await?;
                anyhow::Ok(Joined {
                    state,
                    membership,
                    agent,
                })
            }));
        }
        for join in joins {
            self.joined.push(self.runtime.handle.block_on(join)??);
        }
        Ok(())
    }

    /// The controller as this agent reaches it. An address of loopback that it connects to is also the one that it comes from.
    fn url(&self, agent: usize) -> ControllerUrl {
        let own = u16::try_from(agent % 60_000).unwrap_or(0) + 1;
        let [high, low] = own.to_be_bytes();
        let host = match self.has_addresses {
            true => Ipv4Addr::new(127, 1, high, low),
            false => Ipv4Addr::LOCALHOST,
        };
        ControllerUrl {
            host: host.to_string(),
            port: self.port,
        }
    }

    /// Lets all agents attend that do not yet.
    pub(super) fn attend(&mut self) {
        let from = self.attending.len();
        for joined in self.joined.iter().skip(from) {
            self.attending.push(self.begin(joined.clone()));
        }
    }

    fn begin(&self, joined: Joined) -> AbortHandle {
        let agent = Agent {
            state: joined.state,
            membership: joined.membership,
            binary: Hash::of(b"lab"),
            version: "lab".to_owned(),
            subject: Noted {
                journal: self.journal.clone(),
                agent: joined.agent,
            },
            // It has no plugs.
            proposals: agreements().1,
        };
        let attending = self.runtime.handle.spawn(async move {
            if let Err(error) = attend(agent).await {
                eprintln!("hermes-lab: an agent has ended: {error}");
            }
        });
        attending.abort_handle()
    }

    /// Ends the connections of all agents; they remember what they have.
    pub(super) fn leave(&mut self) {
        self.attending.drain(..).for_each(|agent| agent.abort());
    }

    /// Lets one agent come to the controller by another port from now on, and restarts it.
    pub(super) fn redirect(&mut self, number: usize, port: u16) {
        if let (Some(joined), Some(attending)) =
            (self.joined.get_mut(number), self.attending.get(number))
        {
            attending.abort();
            joined.membership.controller = format!("https://127.0.0.1:{port}");
            let joined = joined.clone();
            let attending = self.begin(joined);
            if let Some(slot) = self.attending.get_mut(number) {
                *slot = attending;
            }
        }
    }

    /// The number of agents.
    pub(super) fn len(&self) -> usize {
        self.joined.len()
    }

    /// The run time of the agents.
    pub(super) fn handle(&self) -> &Handle {
        &self.runtime.handle
    }

    /// Waits until every agent has put a document in force since `begin`.
    ///
    /// # Errors
    /// One has not in time.
    pub(super) fn await_first(&self, begin: Instant) -> Result<()> {
        while self.journal.since(begin).len() < self.len() {
            ensure!(
                begin.elapsed() < FIRST,
                "{} of {} agents have a document after {FIRST:?}",
                self.journal.since(begin).len(),
                self.len()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

async fn join(state: &State, url: &ControllerUrl, token: &str, name: &str) -> Result<Membership> {
    let token: Token = token.parse()?;
    let wanted: Name = name.parse()?;
    let options = JoinOptions {
        name: Some(&wanted),
        binary: Hash::of(b"lab"),
        operator_key: None,
        web: None,
    };
    std::fs::create_dir_all::<PathBuf>(state.folder().into())?;
    let joined = enrol::join(state, url, &token, options).await;
    joined.with_context(|| name.to_owned())
}

/// A thread on which all agents run.
struct AgentThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AgentThread {
    fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("agents".to_owned());
        let thread = thread.spawn(move || {
            // Nothing is sent: the sender is dropped.
            drop(runtime.block_on(stopped));
        });
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread.map_err(|error| anyhow!("a thread for the agents: {error}"))?),
        })
    }
}

impl Drop for AgentThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
