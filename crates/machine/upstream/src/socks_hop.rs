//! The configuration of an upstream whose endpoints are proxies of SOCKS.

use hermes_config::model::{self, SocksVersion};
use hermes_config::{Problem, child};

/// How endpoints are spoken to that are proxies of SOCKS.
#[derive(Debug)]
pub(crate) struct SocksHop {
    pub(crate) version: SocksVersion,
    pub(crate) password: Option<HopPassword>,
}

/// A user and a password that are shown to a proxy.
pub(crate) struct HopPassword {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for HopPassword {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HopPassword")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl SocksHop {
    /// Of the upstream `name`, if it is one of SOCKS; reads the file of its password.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn build(name: &str, config: &model::Upstream) -> Result<Option<Self>, Problem> {
        let Some(socks) = config.socks else {
            return Ok(None);
        };
        let password = config.credentials.as_ref().map(|credentials| {
            let password = credentials.password_file.secret().map_err(|reason| {
                let path = child("upstreams", name);
                Problem::new(format!("{path}.credentials.password_file"), reason)
            })?;
            Ok(HopPassword {
                user: credentials.user.clone(),
                password,
            })
        });
        Ok(Some(Self {
            version: socks.version(),
            password: password.transpose()?,
        }))
    }
}
