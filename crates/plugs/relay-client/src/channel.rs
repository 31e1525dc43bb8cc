//! A channel, by its URL, and the keys of the one who uses it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hermes_certified::{ChannelKeys, SigningKey};
use http::Uri;

use crate::error::ClientError;
use crate::seal::Seal;

/// A channel. With a key in the fragment of its URL, messages are sealed, and the relay cannot read them.
#[derive(Clone)]
pub struct Channel {
    pub(crate) url: Uri,
    pub(crate) seal: Option<Seal>,
    pub(crate) proxy: Option<Uri>,
    pub(crate) signing: Option<Arc<SigningKey>>,
    /// The keys that its path names.
    pub(crate) keys: ChannelKeys,
}

impl Channel {
    /// The URL, without the key of its fragment.
    #[must_use]
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Goes by a listener for programs of a node.
    #[must_use]
    pub fn through(mut self, proxy: Uri) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Signs requests by this key: that of the channel's sender or receiver, or one that its owner approves.
    #[must_use]
    pub fn signed_by(mut self, key: SigningKey) -> Self {
        self.signing = Some(Arc::new(key));
        self
    }

    /// The path and query of the channel, without the name of a subscription.
    pub(crate) fn path(&self) -> String {
        channel_path(&self.url)
    }
}

impl FromStr for Channel {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let (url, fragment) = match text.split_once('#') {
            Some((url, fragment)) => (url, Some(fragment)),
            None => (text, None),
        };
        let url: Uri = url
            .parse()
            .map_err(|error| ClientError::Invalid(format!("{error}")))?;
        let keys = ChannelKeys::of(&path(&url));
        Ok(Self {
            keys: keys.map_err(|error| ClientError::Invalid(error.to_string()))?,
            url,
            seal: fragment
                .map(Seal::new)
                .transpose()
                .map_err(ClientError::Invalid)?,
            proxy: None,
            signing: None,
        })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its key.
        f.debug_tuple("Channel").field(&self.url).finish()
    }
}

/// The path and query of a URL.
pub(crate) fn path(url: &Uri) -> String {
    url.path_and_query()
        .map_or_else(|| "/".to_owned(), ToString::to_string)
}

/// The path of the channel of a URL, which may be that of a subscription, and have the grant of a rendezvous.
pub(crate) fn channel_path(url: &Uri) -> String {
    let whole = path(url);
    let Some((channel, query)) = whole.split_once('?') else {
        return whole;
    };
    let is_ours = |part: &&str| !part.starts_with("s=") && !part.starts_with("g=");
    let rest = query.split('&').filter(is_ours);
    let rest: Vec<_> = rest.collect();
    match rest.is_empty() {
        true => channel.to_owned(),
        false => format!("{channel}?{}", rest.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENT: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn the_key_of_a_url_is_shown_to_no_one() {
        let channel: Channel = format!("http://hub/c/x#{FRAGMENT}").parse().unwrap();
        assert!(channel.seal.is_some());
        assert_eq!(channel.url, "http://hub/c/x");
        assert!(!format!("{channel:?}").contains(&FRAGMENT[..8]));
        for wrong in [
            "http://hub/c/x#",
            "http://hub/c/x#short",
            "http://hub/c/x#%",
            "http://hub/c/ni:sha-256;short",
        ] {
            assert!(wrong.parse::<Channel>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_channel_of_a_subscription_is_its_url_without_the_name() {
        let path = |url: &str| channel_path(&url.parse().unwrap());
        assert_eq!(path("http://hub/c/x?s=abc"), "/c/x");
        assert_eq!(path("http://hub/c/x?a=1&s=abc&b=2"), "/c/x?a=1&b=2");
        assert_eq!(path("http://hub/c/x?g=1.abc&s=abc"), "/c/x");
        assert_eq!(path("http://hub"), "/");
    }
}
