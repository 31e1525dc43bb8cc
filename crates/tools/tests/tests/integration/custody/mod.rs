//! Requests and tunnels in custody, between processes.

mod address;
mod cached;
mod file;
mod once;
mod progress;
mod restarts;
mod row;
mod sessions;
mod silence;
mod users;
