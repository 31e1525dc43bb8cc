//! The credential class of a subscriber: whom the relay takes for the same.

use hermes_plug::HandlerRequest;
use http::header;

/// Subscribers of one class share a subscription at the relay: those of one user, and those who have none, if they send the same
/// credentials on.
pub(super) fn of(request: &HandlerRequest) -> String {
    let mut class = String::new();
    if let Some(user) = &request.user {
        class.push('u');
        class.push_str(&hex(user.as_bytes()));
    }
    for name in [header::AUTHORIZATION, header::COOKIE] {
        for value in request.head.fields.values(&name) {
            class.push('-');
            class.push_str(&hex(value.as_bytes()));
        }
    }
    class
}

/// A class is part of a key whose parts are set apart by slashes.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
