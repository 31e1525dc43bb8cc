//! The machines of the IP overlay, from outside.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

mod device_addresses;
mod flow_cache;
mod name_leases;
mod offload;
mod packets;
mod pool;
mod prefix_table;
mod probe;
mod routing_table;
mod session;
mod steering;
