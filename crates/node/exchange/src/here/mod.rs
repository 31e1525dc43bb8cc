//! Exchanges that end at this node: answers of routes and handlers, attachments, challenges of authorities; and `between`: handlers that
//! stand in the way of a request.

pub(crate) mod acme;
pub(crate) mod attach;
pub(crate) mod awaited;
pub(crate) mod between;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod local;
