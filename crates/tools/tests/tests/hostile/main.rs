//! What an attacker tries: hostile clients, origins and peers against real nodes, each bounded in time and memory.
//!
//! One module a mechanism; a test says what is promised in SECURITY.md.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod acme;
mod ambiguous_paths;
mod answers;
mod cache;
mod canonical_hosts;
mod certificates;
mod charges;
mod client_addresses;
mod client_fields;
mod controller;
mod controller_calls;
mod controller_frames;
mod controller_proposals;
mod controller_socket;
mod custody;
mod custody_messages;
mod descriptors;
mod early_data;
mod empty_lengths;
mod expiry;
mod families;
mod functions;
mod greetings;
mod grpc_filter;
mod handover;
mod handshakes;
mod heads;
mod hop_reports;
mod idle_metrics;
mod intercepted;
mod interim;
mod links;
mod local_addresses;
mod logins;
mod many_mistakes;
mod open_filter;
mod paths;
mod pinned;
mod policy_turns;
mod proxy_header;
mod races;
mod recovery;
mod reflections;
mod relay;
mod replay;
mod secrets;
mod slow_files;
mod slow_log;
mod sources;
mod standing;
mod stopped_reader;
mod streams;
mod terminal;
mod transforms;
mod udp_sources;
mod unfinished;
mod upgrades;
mod uploads;
mod versions;
