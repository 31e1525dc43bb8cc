//! The channel of a command, and the way to it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use hermes_certified::{Approval, key_of_pem};
use hermes_relay_client::{Channel, ClientError};
use http::Uri;

use crate::failure::Failure;

/// The channel, and the way to it.
#[derive(Debug, Args)]
pub(super) struct ChannelAddress {
    /// The channel, such as `http://hub/c/chat`; with `#KEY`, messages are sealed by that key, which the relay does not see.
    #[arg(value_name = "URL")]
    url: Channel,
    /// A listener for programs of a node, which leads to the relay.
    #[arg(long, value_name = "URL", env = "http_proxy")]
    proxy: Option<Uri>,
    /// A private key, as `openssl genpkey -algorithm ed25519` writes it: that of a channel whose path names it, or of an approved sender.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Approve of a sender, by the name of its key (`ni:sha-256;HASH`) or as a user; may be repeated.
    #[arg(long, value_name = "SENDER")]
    approve: Vec<String>,
    /// How long the approval holds, in seconds; a day at most.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    approve_for: u64,
}

impl ChannelAddress {
    /// The channel, by its way and with its key.
    ///
    /// # Errors
    /// The key cannot be read.
    pub(super) fn channel(&self) -> Result<Channel, Failure> {
        let mut channel = self.url.clone();
        if let Some(proxy) = &self.proxy {
            channel = channel.through(proxy.clone());
        }
        if let Some(file) = &self.key {
            let invalid = |reason: &dyn std::fmt::Display| {
                Failure::invalid(format!("{}: {reason}", file.display()))
            };
            let text = hermes_config::secret(file).map_err(Failure::invalid)?;
            let key = key_of_pem(&text).map_err(|error| invalid(&error))?;
            channel = channel.signed_by(key);
        }
        Ok(channel)
    }

    /// The senders that the command approves of; `None` if it names none.
    ///
    /// # Errors
    /// A name is malformed.
    pub(super) fn approval(&self) -> Result<Option<Approval>, Failure> {
        if self.approve.is_empty() {
            return Ok(None);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut approval = Approval {
            until: now.map_or(0, |since| since.as_secs()) + self.approve_for,
            ..Approval::default()
        };
        for sender in &self.approve {
            if sender.starts_with("ni:") {
                let key = sender.parse();
                let key = key.map_err(|error| Failure::invalid(format!("{sender}: {error}")))?;
                approval.keys.push(key);
            } else {
                approval.users.push(sender.clone());
            }
        }
        Ok(Some(approval))
    }
}

/// The end of a command by this error.
pub(super) fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Invalid(reason) => Failure::invalid(reason),
        ClientError::Refused(reason) => Failure::failed(reason),
        ClientError::Away(reason) => {
            let remedy =
                "is the relay running? through a node beside you: --proxy http://ADDRESS:PORT";
            Failure::unreachable(reason).remedy(remedy)
        }
    }
}
