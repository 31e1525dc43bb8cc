//! Valid names of users.

/// Bytes of a user name: it becomes a field value and a part of every record.
#[doc(alias = "bound")]
pub const USER_LIMIT: usize = 256;

/// Whether `text` can be a user: visible ASCII, not empty, not longer than [`USER_LIMIT`].
pub(crate) fn is_user(text: &str) -> bool {
    (1..=USER_LIMIT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
