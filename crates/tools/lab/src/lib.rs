//! The lab: where Hermes is measured against other proxies, on this machine.
//!
//! What it is: [`overhead`] starts pairs of proxies ([`peers`]) between a load generator ([`traffic`]) and an
//! [`origin`], runs [`experiment`]s on them in shuffled order, and makes a [`report`] of medians and ranges.
//! [`hops`] does the same for chains of proxies over HTTP/3, in networks of their own.
//! [`ip`] sends IP packets through Hermes, VPNs in user space, and a copier that bounds what any of them can do.
//! [`browse`] loads a page in Chromium over a slow link.
//! [`cache`] plays the rules of RFC 9111 against caches.
//! [`control`] has agents by the thousand attend a controller.
//! [`push`] has the relay and NATS send small messages, large ones, and to thousands who wait.
//! [`papers`] repeats experiments as papers have them.
//! [`intermittent`] downloads over links of which one is up at a time.
//! [`topology`] makes networks of namespaces, [`emulator`] links with faults between them; [`faults`] is their command.
//!
//! What it is not: a benchmark whose absolute figures mean anything. Everything shares the
//! processors of one machine, so only figures of the same run are compared, and differences below
//! 20 % are no verdict.
//!
//! Specifications: none; how figures are made is in `docs/performance.md`.
//!
//! Begin reading in [`overhead`]: the whole of a run.

pub mod browse;
pub mod cache;
pub mod control;
pub mod emulator;
pub mod experiment;
pub mod faults;
pub mod forwarder;
pub mod functions;
pub mod hops;
pub mod hostile;
pub mod intermittent;
pub mod ip;
pub mod options;
pub mod origin;
pub mod overhead;
pub mod papers;
pub mod peers;
pub mod pki;
pub mod plan;
pub mod policy;
pub mod process;
pub mod progress;
pub mod push;
pub mod rate_limit;
pub mod report;
pub mod socks;
pub mod split;
pub mod topology;
pub mod traffic;
pub mod video;
