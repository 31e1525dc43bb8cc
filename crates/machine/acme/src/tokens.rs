//! http-01: tokens that an authority asks for over HTTP (RFC 8555 section 8.3).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

/// Where an authority asks for tokens; the token follows.
pub const PATH: &str = "/.well-known/acme-challenge/";

/// Characters of a token. Authorities take 43; RFC 8555 asks for 22 at least, and names no end.
#[doc(alias = "bound")]
const TOKEN: usize = 256;

/// The tokens of challenges that are open in this process, and how each is answered.
#[derive(Debug, Default)]
pub struct Tokens {
    open: RwLock<HashMap<String, String>>,
    /// Their number, to be read by every request.
    count: AtomicUsize,
}

impl Tokens {
    /// The answer to a request for this path, if it asks for a token of an open challenge.
    pub fn answer(&self, path: &str) -> Option<String> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let token = path.strip_prefix(PATH)?;
        self.open.read().get(token).cloned()
    }

    /// Answers for `token` until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>, token: &str, answer: &str) -> OpenToken {
        self.change(|open| open.insert(token.to_owned(), answer.to_owned()));
        OpenToken {
            tokens: self.clone(),
            token: token.to_owned(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<String, String>) -> T) {
        let mut open = self.open.write();
        change(&mut open);
        self.count.store(open.len(), Ordering::Relaxed);
    }
}

/// A token that is answered for.
#[derive(Debug)]
pub(crate) struct OpenToken {
    tokens: Arc<Tokens>,
    token: String,
}

impl Drop for OpenToken {
    fn drop(&mut self) {
        self.tokens.change(|open| open.remove(&self.token));
    }
}

/// Whether an authority's token is one: characters of base64url (RFC 8555 section 8.1), which no path or field can misread.
pub(crate) fn is_token(text: &str) -> bool {
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !text.is_empty() && text.len() <= TOKEN && text.bytes().all(is_base64url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_open_challenges_are_answered_for() {
        let tokens = Arc::new(Tokens::default());
        let ours = format!("{PATH}abc");
        assert_eq!(tokens.answer(&ours), None);

        let open = tokens.open("abc", "abc.print");
        assert_eq!(tokens.answer(&ours).as_deref(), Some("abc.print"));
        for strange in ["abcd", "ab", "", "abc/", "abc?x", "../abc"] {
            assert_eq!(tokens.answer(&format!("{PATH}{strange}")), None);
        }
        assert_eq!(tokens.answer("/abc"), None);

        drop(open);
        assert_eq!(tokens.answer(&ours), None);
    }

    #[test]
    fn a_token_is_base64url_and_bounded() {
        assert!(is_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"));
        for bad in ["", "a/b", "a b", "ä", "a\r\nb", &"a".repeat(257)] {
            assert!(!is_token(bad), "{bad}");
        }
    }
}
