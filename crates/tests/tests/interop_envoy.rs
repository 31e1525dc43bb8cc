//! Hermes and Envoy 1.40 in every role: in front of each other, between each other, over both versions of HTTP.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "interop_envoy/authority.rs"]
mod authority;
#[path = "interop_envoy/bounded.rs"]
mod bounded;
#[path = "interop_envoy/dependent.rs"]
mod dependent;
#[path = "interop_envoy/introduced.rs"]
mod introduced;
#[path = "interop_envoy/middle.rs"]
mod middle;
#[path = "interop_envoy/overlay.rs"]
mod overlay;
#[path = "interop_envoy/payloads.rs"]
mod payloads;
#[path = "interop_envoy/post.rs"]
mod post;
#[path = "interop_envoy/standalone.rs"]
mod standalone;
#[path = "interop_envoy/tls.rs"]
mod tls;
#[path = "interop_envoy/traced.rs"]
mod traced;
#[path = "interop_envoy/truncated.rs"]
mod truncated;
#[path = "interop_envoy/websocket.rs"]
mod websocket;
