//! Attacks on a running node: the tests assert their cost, the lab measures it.
//!
//! An attack is bounded in time, memory and packets. Its [`Stage`] is a node with the defaults and the servers behind it; beside the
//! attacker's listener `web` the node has one, [`CALM`], by which a bystander of another address is served.

mod address_pool;
mod admin_socket;
pub mod ambiguous_paths;
mod areas;
mod bombs;
pub mod broadcast_replies;
mod control_frames;
pub mod costly_policy;
pub mod crowded_filter;
pub mod custody;
mod devices;
mod functions;
pub mod heads;
pub mod intercepted;
pub mod interim;
mod kept_contents;
pub mod late_fields;
mod lying_origins;
mod paced;
mod rebinding;
pub mod refusals;
pub mod replay_windows;
mod slow_filter;
pub mod spelled_hosts;
pub mod transforms;
mod translated;
pub mod uploads;
pub mod waiting_datagrams;

use std::any::Any;
use std::fmt;

use crate::{Node, origins};

/// The listener of the bystander. The name of its origin is [`BYSTANDER`].
pub const CALM: &str = "calm";

/// The authority that the bystander asks for.
pub const BYSTANDER: &str = "bystander.test";

/// Who attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Anyone who reaches a listener.
    Stranger,
    /// A client that may use the node.
    Client,
    /// A user with valid credentials.
    User,
    /// A server behind the node.
    Origin,
    /// Another proxy.
    Peer,
    /// Another user of the machine.
    LocalUser,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stranger => "stranger",
            Self::Client => "client",
            Self::User => "user",
            Self::Origin => "origin",
            Self::Peer => "peer",
            Self::LocalUser => "local user",
        })
    }
}

/// Where an attack can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Anywhere.
    Loopback,
    /// In a network namespace of its own, as root: the node makes devices, or the attacker is another user.
    Devices,
}

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name on the command line.
    pub name: &'static str,
    /// Who attacks.
    pub by: Party,
    /// Where it can be run.
    pub place: Place,
    /// The attack in a line.
    pub summary: &'static str,
    /// Starts the node, and the servers that the attack needs.
    pub prepare: fn() -> Stage,
    /// Attacks. Connections stay open as long as the [`Effort`] is held.
    pub run: fn(&Stage) -> Effort,
}

/// All attacks.
pub const ALL: &[Attack] = &[
    crowded_filter::CROWD,
    spelled_hosts::MAPPED,
    devices::OWN_SERVICES,
    devices::TWO_DEVICES,
    devices::FORGED_ERRORS,
    address_pool::EMPTIED,
    heads::INDEXED,
    interim::INDEXED,
    intercepted::OPENINGS,
    custody::FLOOD,
    uploads::STUCK,
    replay_windows::UNREAD,
    kept_contents::RETRY,
    broadcast_replies::UNREAD,
    waiting_datagrams::FORGED,
    transforms::NESTED,
    costly_policy::QUADRATIC,
    slow_filter::CROWDED,
    ambiguous_paths::READ_OTHERWISE,
    control_frames::NEEDLESS,
    late_fields::TRAILERS,
    refusals::LARGE,
    rebinding::REBOUND,
    admin_socket::BELIEVED,
    functions::SCANNER,
    functions::PROCESSOR,
    functions::HOP,
    bombs::ZSTANDARD,
    areas::PATHS,
    paced::WAITERS,
    translated::COSTLY,
    lying_origins::LYING,
];

/// A node under attack, with the servers behind it.
pub struct Stage {
    /// The node.
    pub node: Node,
    kept: Vec<Box<dyn Any + Send>>,
}

impl Stage {
    /// Starts a node with these listeners and routes, given as the inside of their YAML collections, and with further lines at the top
    /// level. The bystander's listener and route are added.
    ///
    /// # Panics
    /// When the node does not start.
    pub fn start(listeners: &str, routes: &str, further: &str) -> Self {
        Self::start_with(listeners, routes, further, &[])
    }

    /// The same with files beside the configuration, in which `FOLDER` stands for the folder that they are in.
    ///
    /// # Panics
    /// When the node does not start.
    pub fn start_with(
        listeners: &str,
        routes: &str,
        further: &str,
        files: &[(&str, &str)],
    ) -> Self {
        let origin = origins::http();
        let yaml = format!(
            "listeners: {{ {CALM}: {{ http: 127.0.0.1:0 }}, {listeners} }}\n\
             routes: [ {{ match: {{ listener: {CALM} }}, terminate: \"{}\" }}, {routes} ]\n\
             {further}\n",
            origin.address()
        );
        let folder = tempfile::tempdir().unwrap();
        let yaml = yaml.replace("FOLDER", folder.path().to_str().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }

        Self::of(Node::start_in(folder, "edge", &yaml, &[])).keeping(origin)
    }

    /// A node that has the listener [`CALM`] already.
    pub fn of(node: Node) -> Self {
        Self {
            node,
            kept: Vec::new(),
        }
    }

    /// The first kept server of this type.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        self.kept.iter().find_map(|kept| kept.downcast_ref())
    }

    /// Keeps a server for as long as the stage is there.
    #[must_use]
    pub fn keeping(mut self, server: impl Any + Send) -> Self {
        self.kept.push(Box::new(server));
        self
    }
}

/// The expense of an attacker.
#[derive(Default)]
pub struct Effort {
    /// Bytes that he has sent.
    pub bytes: u64,
    /// Requests, packets or handshakes among them.
    pub attempts: u64,
    /// Attempts that got past a rule; for attacks on rules.
    pub passed: u64,
    /// Refused requests of others than the bystander; for attacks on shared bounds.
    pub refused_of_others: u64,
    held: Vec<Box<dyn Any>>,
}

impl Effort {
    /// Keeps a connection open until the effort is dropped.
    pub fn hold(&mut self, connection: impl Any) {
        self.held.push(Box::new(connection));
    }
}
