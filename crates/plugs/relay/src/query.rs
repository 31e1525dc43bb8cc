//! The part of a relay's URI that names a subscription: `?s=NAME`.

/// A path and query, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChannelPath {
    /// The path and query of the channel.
    pub(crate) channel: String,
    /// The subscription.
    pub(crate) subscription: Option<String>,
    /// The grant of a rendezvous: `g=`.
    pub(crate) grant: Option<String>,
}

/// Takes the name of a subscription out of a path and query; the last one counts.
pub(crate) fn take_apart(path_and_query: &str) -> ChannelPath {
    let Some((path, query)) = path_and_query.split_once('?') else {
        return ChannelPath {
            channel: path_and_query.to_owned(),
            subscription: None,
            grant: None,
        };
    };
    let mut subscription = None;
    let mut grant = None;
    let mut rest = Vec::new();
    for part in query.split('&') {
        if let Some(name) = part.strip_prefix("s=") {
            subscription = Some(name.to_owned());
        } else if let Some(text) = part.strip_prefix("g=") {
            grant = Some(text.to_owned());
        } else {
            rest.push(part);
        }
    }
    let channel = match rest.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", rest.join("&")),
    };
    ChannelPath {
        channel,
        subscription,
        grant,
    }
}

/// The path and query of a subscription to a channel.
pub(crate) fn of_subscription(channel: &str, id: &str) -> String {
    let mark = if channel.contains('?') { '&' } else { '?' };
    format!("{channel}{mark}s={id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_is_named_beside_the_query_of_its_channel() {
        let parts = |channel: &str, subscription: Option<&str>| ChannelPath {
            channel: channel.to_owned(),
            subscription: subscription.map(str::to_owned),
            grant: None,
        };
        assert_eq!(take_apart("/c"), parts("/c", None));
        assert_eq!(take_apart("/c?a=1&b"), parts("/c?a=1&b", None));
        assert_eq!(take_apart("/c?s=x"), parts("/c", Some("x")));
        assert_eq!(take_apart("/c?a=1&s=x&b=2"), parts("/c?a=1&b=2", Some("x")));
        for channel in ["/c", "/c?a=1"] {
            let path = of_subscription(channel, "x");
            assert_eq!(take_apart(&path), parts(channel, Some("x")));
        }
    }
}
