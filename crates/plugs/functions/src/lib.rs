//! Functions on the way of exchanges, which `through` of a route names in their order.
//!
//! Those that are built in are transforms: [`Allow`] lets only some targets through, [`Limit`] bounds bytes in a second, [`Sniff`] refuses a
//! flow that is not what it claims to be, and [`Tap`] records flows to files, [`Zstd`] compresses. [`Hop`] leads a flow through a process outside, and
//! [`Icap`] and [`ExtProc`], handlers, show messages to a scanner and to a processor. [`At`] asks a node further on for its functions,
//! [`Crypt`] encrypts between two nodes.
//!
//! They are no policy: `policy` decides who may do what before a route is chosen, and egress rules hold for every address that is dialled.
//! The functions of a route see what these have let pass.
//!
//! Begin reading in `allow`, the smallest; the duties of all are in [`hermes_plug::Transform`].

mod allow;
mod at;
mod crypt;
mod ext_proc;
mod guard;
mod hop;
mod icap;
mod limit;
mod need;
mod outside;
mod passing;
mod room;
mod sees;
mod sniff;
mod tap;
mod zstandard;

use std::sync::Arc;

use hermes_plug::Plugs;

pub use allow::Allow;
pub use at::At;
pub use crypt::Crypt;
pub use ext_proc::ExtProc;
pub use hop::Hop;
pub use icap::Icap;
pub use limit::Limit;
pub use sniff::Sniff;
pub use tap::Tap;
pub use zstandard::Zstd;

use at::keyring::Keyring;
use at::plug::FunctionKeys;

/// Adds the functions to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let keyring = Arc::<Keyring>::default();
    plugs
        .plug("functions", FunctionKeys(keyring.clone()))
        .transform("allow", Allow::default())
        .transform("at", At::new(keyring.clone()))
        .transform("decrypt", Crypt::decrypt(keyring.clone()))
        .transform("encrypt", Crypt::encrypt(keyring))
        .handler("ext_proc", ExtProc::default())
        .transform("hop", Hop::default())
        .handler("icap", Icap::default())
        .transform("limit", Limit::default())
        .transform("sniff", Sniff::default())
        .transform("tap", Tap::default())
        .transform("zstd", Zstd::default())
}
