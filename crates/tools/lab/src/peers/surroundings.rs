//! The parts that all systems share.

use std::path::PathBuf;

use anyhow::Result;

use super::programs::Programs;
use crate::origin::Addresses;
use crate::pki::Pki;
use crate::process::Process;
use crate::traffic::{Client, Entry, Link};

/// Threads of every proxy that lets one choose.
pub(super) const THREADS: usize = 2;

/// When a silent UDP session ends: after those of which the memory is measured have been silent for half a minute, and before those of
/// bursts have all descriptors.
pub(super) const UDP_IDLE: &str = "60s";

/// The network, the programs and the files that systems are started with.
#[derive(Clone)]
pub struct Surroundings {
    /// Where the origin listens.
    pub origin: Addresses,
    /// Certificates.
    pub pki: Pki,
    /// For configurations and logs; every system makes a folder of its own.
    pub folder: PathBuf,
    /// The programs.
    pub programs: Programs,
    /// Used to find out whether a system works.
    pub client: Client,
}

/// The processes of a system, and the entries for each link.
pub(super) type Started = Result<(Vec<Process>, Vec<(Link, Entry)>)>;
