//! `hermes controller`: the desired state of an overlay, its authority, and with `--node` also one of its nodes.

use std::fs::{File, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hermes_agent::enrol::{self, JoinOptions};
use hermes_agent::{ControllerUrl, Membership, State};
use hermes_api::Name;
use hermes_control::authority::TokenRequest;
use hermes_control::resources::Resource;
use hermes_control::service::{About, Controller, How};
use hermes_control::store::history::History;
use hermes_control::store::{
    EtcdAddress, EtcdIdentity, EtcdStore, EtcdTls, RedbStore, Store, StoreError,
};
use hermes_net::clock::unix_seconds;
use serde_json::{Value, json};

use super::{SOCKET, member};
use crate::commands::run::Signals;
use crate::failure::Failure;
use crate::logging::{self, Logging};
use crate::output::Output;

/// Arguments of `hermes controller`.
#[derive(Debug, Args)]
pub struct ControllerArguments {
    /// Be a node of this name, too, by which devices enter the overlay.
    #[arg(long, value_name = "NAME")]
    node: Option<Name>,
    /// Name of the overlay; kept from its first start on.
    #[arg(long, default_value = "hermes")]
    overlay: Name,
    /// Address for the agents of nodes.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:7443")]
    listen: SocketAddr,
    /// The controller as nodes reach it. Default: this machine's name, and the port of --listen.
    #[arg(long, value_name = "URL")]
    url: Option<ControllerUrl>,
    /// Address at which the node is reached by others, such as 0.0.0.0:8443; used when the overlay begins.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    node_listen: SocketAddr,
    /// Where the controller and its node keep their state. Default: `controller` in the folder for state.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    #[command(flatten)]
    files: member::AllowedFiles,
    /// Where several controllers keep the overlay together: an etcd, as etcd://HOST:2379,HOST:2379/OVERLAY. Default: a file of this
    /// controller's own.
    #[arg(long, value_name = "URL", conflicts_with = "overlay")]
    store: Option<EtcdAddress>,
    #[command(flatten)]
    store_tls: StoreTls,
    /// Begin with a backup that `hermes backup` wrote. The folder for state must have none yet.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Stop at once when standard input ends.
    #[arg(long, hide = true)]
    until_eof: bool,
    /// What is logged, such as info or hermes_control=debug.
    #[arg(long, default_value = logging::DEFAULT)]
    log: String,
}

/// The files by which a controller and etcd believe each other.
#[derive(Debug, Args)]
struct StoreTls {
    /// Authorities of etcd's servers, in PEM; without it, etcd is spoken to without TLS.
    #[arg(long, value_name = "FILE", requires = "store")]
    store_ca: Option<PathBuf>,
    /// The controller's certificates towards etcd, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["store_ca", "store_key"])]
    store_cert: Option<PathBuf>,
    /// The key of --store-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "store_cert")]
    store_key: Option<PathBuf>,
}

impl StoreTls {
    fn tls(&self) -> Option<EtcdTls> {
        let identity = self.store_cert.clone().zip(self.store_key.clone());
        Some(EtcdTls {
            authorities: self.store_ca.clone()?,
            identity: identity.map(|(certificates, key)| EtcdIdentity { certificates, key }),
        })
    }
}

/// Runs a controller until it is told to stop.
///
/// # Errors
/// Its folder cannot be read, another controller uses it, or its addresses cannot be bound.
pub async fn run(arguments: ControllerArguments, output: Output) -> Result<(), Failure> {
    let signals = Signals::new(arguments.until_eof)
        .map_err(|error| Failure::failed(format!("signals: {error}")))?;
    let folder = super::folder(arguments.state.as_deref(), "controller")?;
    // Keys of the authority are in memory.
    let _ = hermes_net::os::allow_dumps(false);
    let _ = hermes_net::os::raise_open_files();
    let logging = Logging::start(&arguments.log, None).map_err(Failure::failed)?;

    let Opened {
        controller,
        shared,
        _lock,
    } = open(&arguments, &folder)?;
    controller.await_leader().map_err(Failure::failed)?;
    begin(&controller, &arguments)?;
    let address = serve(controller.clone(), &arguments, &folder)?;
    tell(&controller, &arguments, &folder, output);
    let ended = until_told(
        &controller,
        &arguments,
        address,
        Outside {
            folder: &folder,
            logging,
            signals,
        },
    )
    .await;
    if let Some(store) = shared {
        // Another controller leads at once, and not only when the lease ends.
        let _ = tokio::task::spawn_blocking(move || store.resign()).await;
    }
    ended
}

/// The process around a controller.
struct Outside<'a> {
    folder: &'a Path,
    logging: Logging,
    signals: Signals,
}

/// Runs its node, if it has one, until a signal ends it.
async fn until_told(
    controller: &Arc<Controller>,
    arguments: &ControllerArguments,
    address: SocketAddr,
    outside: Outside<'_>,
) -> Result<(), Failure> {
    let Outside {
        folder,
        logging,
        mut signals,
    } = outside;
    match &arguments.node {
        None => {
            signals.stop_again().await;
            Ok(())
        }
        Some(name) => {
            let state = arguments.files.state(folder.join("node"))?;
            let membership = own_membership(controller, &state, name, address).await?;
            member::run(state, membership, logging, signals).await
        }
    }
}

/// A controller, and its store where others share it.
struct Opened {
    controller: Arc<Controller>,
    shared: Option<Arc<EtcdStore>>,
    /// Locked as long as the process runs, where no store does that.
    _lock: Option<File>,
}

fn open(arguments: &ControllerArguments, folder: &Path) -> Result<Opened, Failure> {
    make_folder(folder)?;
    let url = arguments.url.clone().unwrap_or_else(|| ControllerUrl {
        host: super::machine_name().map_or_else(|| "localhost".to_owned(), |name| name.to_string()),
        port: arguments.listen.port(),
    });
    let stored = arguments.store.as_ref().map(EtcdAddress::overlay);
    let overlay = stored.unwrap_or(&arguments.overlay).clone();
    let about = About {
        trust_domain: format!("{overlay}.hermes.internal"),
        overlay,
        node: arguments.node.clone(),
        url: url.to_string(),
    };
    if let Some(address) = &arguments.store {
        let lock = locked(&folder.join("lock"))?;
        return open_shared(arguments, address, about, lock);
    }
    let file = folder.join("store.redb");
    let store = RedbStore::open(&file)
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    let store = Arc::new(store);
    if let Some(backup) = &arguments.restore {
        restore(store.clone(), backup)?;
    }
    Ok(Opened {
        controller: Controller::open(store, about).map_err(Failure::failed)?,
        shared: None,
        _lock: None,
    })
}

fn open_shared(
    arguments: &ControllerArguments,
    address: &EtcdAddress,
    about: About,
    lock: File,
) -> Result<Opened, Failure> {
    let failed = |error: StoreError| Failure::failed(error.to_string());
    let tls = arguments.store_tls.tls();
    if tls.is_none() && !address.is_local() {
        tracing::warn!(
            "etcd is spoken to without TLS: anyone who sees that traffic has the keys of the overlay's authority; give --store-ca"
        );
    }
    let store = Arc::new(EtcdStore::open(address, tls.as_ref()).map_err(failed)?);
    if let Some(backup) = &arguments.restore {
        restore(store.clone(), backup)?;
    }
    let leadership = store.take_part(&about.url);
    let controller = Controller::open_shared(store.clone(), about, leadership);
    Ok(Opened {
        controller: controller.map_err(Failure::failed)?,
        shared: Some(store),
        _lock: Some(lock),
    })
}

/// A file that one process has at a time.
fn locked(path: &Path) -> Result<File, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| failed(&error))?;
    file.try_lock()
        .map_err(|_| failed(&"another controller runs with this state"))?;
    Ok(file)
}

fn restore(store: Arc<dyn Store>, backup: &Path) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", backup.display()));
    let mut file = File::open(backup).map_err(|error| failed(&error))?;
    let restored = History::new(store).restore(&mut file, unix_seconds());
    restored.map(drop).map_err(|error| failed(&error))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::set_permissions(folder, Permissions::from_mode(0o700)));
    made.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
}

/// The first state of an overlay: itself, and the controller's node, by which devices enter it.
fn begin(controller: &Controller, arguments: &ControllerArguments) -> Result<(), Failure> {
    // Where several begin at once, the first leader does it.
    if !controller.is_empty() || !controller.leads() {
        return Ok(());
    }
    let made = first(arguments, &controller.about().url).map_err(Failure::failed)?;
    let how = How {
        author: "controller".to_owned(),
        message: "the overlay begins".to_owned(),
        ..How::default()
    };
    controller
        .add(&made, &how)
        .map(drop)
        .map_err(|error| Failure::failed(error.to_string()))
}

fn first(arguments: &ControllerArguments, url: &str) -> Result<Vec<Resource>, String> {
    let url: ControllerUrl = url.parse()?;
    let reach = ControllerUrl {
        port: arguments.node_listen.port(),
        ..url
    };
    // Written as a URL's authority: with brackets around an address of IPv6.
    let reach = reach.to_string().trim_start_matches("https://").to_owned();
    let envelope = |kind: &str, name: &Name, spec: Value| {
        let json = json!({ "apiVersion": "hermes/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        Resource::from_json(&json).map_err(|finding| finding.to_string())
    };

    let overlay = envelope("Overlay", &arguments.overlay, json!({}))?;
    let Some(node) = &arguments.node else {
        return Ok(vec![overlay]);
    };
    let listen = arguments.node_listen.to_string();
    let spec = json!({ "listen": listen, "reach": [reach], "ingress": true });
    Ok(vec![overlay, envelope("Node", node, spec)?])
}

/// Serves on a thread of its own, so that its work never delays the node of this process; returns the address for agents.
fn serve(
    controller: Arc<Controller>,
    arguments: &ControllerArguments,
    folder: &Path,
) -> Result<SocketAddr, Failure> {
    let unbound =
        |place: String| move |error: std::io::Error| Failure::failed(format!("{place}: {error}"));
    let agents = std::net::TcpListener::bind(arguments.listen)
        .map_err(unbound(arguments.listen.to_string()))?;
    let address = agents.local_addr().unwrap_or(arguments.listen);
    let socket = folder.join(SOCKET);
    // The store in the folder is locked by this process: a socket that is there belongs to one that has ended.
    let _ = std::fs::remove_file(&socket);
    let operators = std::os::unix::net::UnixListener::bind(&socket)
        .map_err(unbound(socket.display().to_string()))?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o600))
        .map_err(unbound(socket.display().to_string()))?;

    let thread = std::thread::Builder::new().name("controller".to_owned());
    let spawned = thread.spawn(move || {
        let served = runtime().and_then(|runtime| {
            runtime.block_on(async {
                agents.set_nonblocking(true)?;
                operators.set_nonblocking(true)?;
                let agents = tokio::net::TcpListener::from_std(agents)?;
                let operators = tokio::net::UnixListener::from_std(operators)?;
                // Until the process ends: nothing else ends a controller.
                controller.serve(agents, operators).await;
                Ok(())
            })
        });
        if let Err(error) = served {
            tracing::error!(%error, "the controller has failed");
        }
    });
    spawned.map_err(unbound("a thread".to_owned()))?;
    Ok(address)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    /// Threads that read and write the store, and judge certificates. When thousands of nodes come back at once, more of them would
    /// only take turns with the one that speaks to the nodes.
    #[doc(alias = "bound")]
    const BLOCKING: usize = 16;

    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build()
}

/// The membership of the controller's own node, which joins as every other does.
async fn own_membership(
    controller: &Arc<Controller>,
    state: &State,
    name: &Name,
    address: SocketAddr,
) -> Result<Membership, Failure> {
    /// How long the node's own token counts.
    const LIFETIME: Duration = Duration::from_secs(60);
    let known = state
        .membership()
        .map_err(|error| Failure::failed(error.to_string()))?;
    if let Some(known) = known {
        return Ok(known);
    }
    let request = TokenRequest {
        user: None,
        name: Some(name.clone()),
        lifetime_seconds: LIFETIME.as_secs(),
    };
    let token = controller.create_token(&request).map_err(Failure::failed)?;
    let url = ControllerUrl {
        host: match address.ip() {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            ip => ip.to_string(),
        },
        port: address.port(),
    };
    let joined = enrol::join(
        state,
        &url,
        &token,
        JoinOptions {
            name: Some(name),
            binary: member::binary()?,
            web: None,
            operator_key: None,
        },
    )
    .await;
    joined.map_err(|error| Failure::failed(error.to_string()))
}

fn tell(controller: &Controller, arguments: &ControllerArguments, folder: &Path, output: Output) {
    let about = controller.about();
    if output.json {
        return output.value(about);
    }
    output.line(format_args!(
        "controller of overlay {} at {}; its state is in {}",
        about.overlay,
        about.url,
        folder.display()
    ));
    let place = arguments
        .state
        .as_ref()
        .map(|_| format!(" --controller {}", folder.join(SOCKET).display()));
    output.line(format_args!(
        "next: hermes token create --user alice{}",
        place.unwrap_or_default()
    ));
}
