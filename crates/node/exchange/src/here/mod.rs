//! Exchanges that end at this node: answers of routes and handlers, attachments, challenges of authorities.

pub(crate) mod acme;
pub(crate) mod attach;
pub(crate) mod awaited;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod local;
