//! Keys, one at a time, as they are pressed.

use std::io::{Read, stdin};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

use crate::failure::Failure;

/// Keys that wait to be taken: no one types faster.
#[doc(alias = "bound")]
const WAITING: usize = 16;

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// End.
    Quit,
    /// The next order.
    Sort,
    /// Stand still, or go on.
    Pause,
    /// Nothing.
    Other,
}

impl Key {
    fn of(byte: u8) -> Self {
        match byte {
            b'q' | b'Q' => Self::Quit,
            b's' | b'S' => Self::Sort,
            b'p' | b'P' | b' ' => Self::Pause,
            _ => Self::Other,
        }
    }
}

/// The keyboard. While this lives, keys are not shown and do not wait for Enter; Ctrl-C works as ever.
#[derive(Debug)]
pub struct Keys {
    settings: Termios,
    pressed: Receiver<u8>,
}

impl Keys {
    /// Takes the keyboard.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub fn open() -> Result<Self, Failure> {
        let settings = tcgetattr(stdin()).map_err(|error| {
            Failure::failed(format!("standard input is not a terminal: {error}"))
                .remedy("ask with --once")
        })?;
        let mut own = settings.clone();
        own.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &own).map_err(|error| {
            Failure::failed(format!(
                "the terminal's settings cannot be changed: {error}"
            ))
        })?;
        let (sender, pressed) = channel(WAITING);

        // A thread that waits for a key ends with the process.
        std::thread::spawn(move || {
            for byte in stdin().lock().bytes() {
                let Ok(byte) = byte else { return };
                if sender.blocking_send(byte).is_err() {
                    return;
                }
            }
        });

        Ok(Self { settings, pressed })
    }

    /// The next key; the end of standard input is no key.
    pub async fn next(&mut self) -> Key {
        match self.pressed.recv().await {
            Some(byte) => Key::of(byte),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // There is nothing that could be done about it.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_keys_in_either_case() {
        assert_eq!(
            b"qSp x".map(Key::of),
            [Key::Quit, Key::Sort, Key::Pause, Key::Pause, Key::Other]
        );
    }
}
