//! Hermes and Envoy 1.40 in every role: in front of each other, between each other, over both versions of HTTP.

mod authority;
mod bounded;
mod converted;
mod dependent;
mod introduced;
mod middle;
mod overlay;
mod payloads;
mod post;
mod standalone;
mod tls;
mod traced;
mod truncated;
mod websocket;
