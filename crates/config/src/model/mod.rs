//! The typed document: what one node's file may say.
//!
//! Plain data. Every type derives its JSON Schema, which is the single source of truth for what keys exist;
//! scalar types with a syntax of their own ([`scalar`]) name it in the schema's `format`.

mod attach;
mod authorize;
mod bind;
mod broadcast;
mod chain;
mod defaults;
mod egress;
mod files;
mod health;
mod keeping;
mod listener;
mod memory;
mod node;
mod pac;
mod proxy_protocol;
mod retry;
mod route;
pub mod scalar;
mod sticky;
mod templates;
mod trace;
mod tunnel;
mod upstream;

pub use attach::{Attach, AttachAs, AttachDetails};
pub use authorize::{Authorize, AuthorizeBody, AuthorizeCache, AuthorizeKind, Fail};
pub use bind::Bind;
pub use broadcast::{Broadcast, Otherwise, Reply};
pub use chain::Chain;
pub use defaults::{DefaultLimits, Defaults, NodeTls};
pub use egress::Egress;
pub use health::{CheckKind, Eject, Health};
pub use keeping::{Keepalive, UpstreamLimits};
pub use listener::{
    Auth, AuthMethods, AuthMode, Basic, Bearer, Forged, Limits, Listener, ServerTls,
};
pub use memory::Memory;
pub use node::{Access, Admin, Debug, Document, Log, NodeIdentity, Peer, default_provenance};
pub use pac::{Pac, PacWord};
pub use proxy_protocol::{ProxyProtocol, ProxyProtocolVersion};
pub use retry::{Backoff, Hedge, Retry, RetryBudget, RetryOn};
pub use route::{
    Action, Datagrams, ExchangeKind, FieldMatch, Hops, Match, Oversize, PathRewrite, Redirect,
    Respond, Rewrite, Route, Terminate, Timeouts,
};
pub use scalar::{
    ByteSize, Duration, EndpointAddress, FieldPattern, FilePath, HostMatch, HostPort, HttpUrl,
    ListenAddress, OneOrMany, PathMatch, Percent, PortMatch, Rate, StatusMatch, TargetMatch,
    Template, TemplatePart, TextMatch, UpgradeName, UserPattern, Variable,
};
pub use sticky::Hash;
pub use templates::{Templates, UpstreamTemplates};
pub use trace::{Continue, Metrics, Trace, TraceUser};
pub use tunnel::{Tunnel, TunnelPost, TunnelWord};
pub use upstream::{Balance, ClientTls, Endpoint, HttpVersion, TlsChoice, Upstream};
