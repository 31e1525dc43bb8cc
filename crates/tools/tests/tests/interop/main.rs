//! Hermes beside the programs of others.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod acme;
mod activation;
mod caches;
mod company_proxy;
mod cost;
mod curl;
mod envoy;
mod ext_proc;
mod grpc_authz;
mod http2;
mod http3;
mod neighbours;
mod nginx;
mod opa;
mod opa_envoy;
mod otlp;
mod pacing;
mod packaging;
mod proxy_protocol;
mod rego_cases;
mod relay;
mod retry;
mod slow;
mod smuggling;
mod successor;
mod websocket;
