//! Whole nodes under real traffic, by subject.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod abuse;
mod abuse_links;
mod admin;
mod answer_fields;
mod answer_limits;
mod attach;
mod authorize;
mod bind;
mod broadcast;
mod cache;
mod chain;
mod chains;
mod configuration;
mod confirm;
mod connect;
mod connect_tcp;
mod converted;
mod custody;
mod datagrams;
mod decisions;
mod direct;
mod docs;
mod drain;
mod early;
mod egress;
mod field_case;
mod fields;
mod health;
mod http;
mod http3;
mod identity;
mod layouts;
mod limits;
mod link_ends;
mod listeners;
mod local_ends;
mod malformed;
mod optional_auth;
mod outlive;
mod overlay;
mod overlay_etcd;
mod overlay_kinds;
mod overlay_peering;
mod overlay_questions;
mod overlay_resumed;
mod overlay_way;
mod own_authority;
mod pac;
mod pace;
mod packets;
mod policy;
mod records;
mod refused;
mod relay;
mod request_fields;
mod responses;
mod resume;
mod retry;
mod routing;
mod semantics;
mod slow;
mod smuggling;
mod system_authorities;
mod templates;
mod tokens;
mod trace;
mod transform;
mod tunnels;
mod untrusted;
mod versions;
mod why;
