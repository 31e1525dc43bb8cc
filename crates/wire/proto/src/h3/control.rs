//! The peer's control stream, and the meaning of its frames (RFC 9114, sections 5.2, 6.2.1, 7.2; RFC
//! 9218, section 7).

use super::code::{Code, Fault};
use super::frame::Frame;
use super::priority::Priority;
use super::settings::Settings;

/// Which side of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one that answers.
    Server,
    /// The one that asks.
    Client,
}

/// A change that a frame of the control stream asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlEvent {
    /// The peer's settings; the first event, and once.
    Settings(Settings),
    /// The peer wants to end. For a client: requests on this stream and above were not processed.
    Goaway(u64),
    /// A client gives a request another priority.
    Priority {
        /// The stream of the request, which may not be open yet.
        stream: u64,
        /// The new priority.
        priority: Priority,
    },
}

/// The machine behind a control stream: frames in, events out.
#[derive(Debug)]
pub struct Control {
    role: Role,
    settled: bool,
    goaway: Option<u64>,
    max_push: Option<u64>,
}

impl Control {
    /// Before the first frame; `role` is ours.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            settled: false,
            goaway: None,
            max_push: None,
        }
    }

    /// Takes a frame; `None` when it changes nothing.
    ///
    /// # Errors
    /// The frame must not come on this stream, not at this time, or not with this content.
    pub fn handle_frame(&mut self, frame: &Frame) -> Result<Option<ControlEvent>, Fault> {
        match frame {
            Frame::Settings(payload) => {
                if std::mem::replace(&mut self.settled, true) {
                    return Err(Fault::connection(
                        Code::FrameUnexpected,
                        "SETTINGS came twice",
                    ));
                }
                Settings::decode(payload).map(|settings| Some(ControlEvent::Settings(settings)))
            }
            _ if !self.settled => Err(Fault::connection(
                Code::MissingSettings,
                "SETTINGS did not come first",
            )),
            Frame::Goaway(id) => self.goaway(*id).map(Some),
            Frame::MaxPushId(id) => self.max_push(*id).map(|()| None),
            // RFC 9114, section 7.2.3: nothing was ever pushed, so there is no identifier that it could name.
            Frame::CancelPush(_) => Err(Fault::connection(Code::IdError, "CANCEL_PUSH of no push")),
            Frame::PriorityUpdate { stream, value } => self.priority(*stream, value).map(Some),
            Frame::PriorityUpdatePush if self.role == Role::Server => Err(Fault::connection(
                Code::IdError,
                "PRIORITY_UPDATE of no push",
            )),
            Frame::PriorityUpdatePush | Frame::Headers(_) | Frame::PushPromise => Err(UNEXPECTED),
        }
    }

    /// RFC 9114, section 7.2.6: a server names a request stream; no one names more than before.
    fn goaway(&mut self, id: u64) -> Result<ControlEvent, Fault> {
        if self.role == Role::Client && !is_request(id) {
            return Err(Fault::connection(
                Code::IdError,
                "GOAWAY with an ID that is not a request stream's",
            ));
        }

        if self.goaway.is_some_and(|before| id > before) {
            return Err(Fault::connection(
                Code::IdError,
                "GOAWAY with a larger identifier than before",
            ));
        }

        self.goaway = Some(id);
        Ok(ControlEvent::Goaway(id))
    }

    /// RFC 9114, section 7.2.7: only clients send it, and it does not shrink.
    fn max_push(&mut self, id: u64) -> Result<(), Fault> {
        if self.role == Role::Client {
            return Err(UNEXPECTED);
        }
        if self.max_push.is_some_and(|before| id < before) {
            return Err(Fault::connection(
                Code::IdError,
                "MAX_PUSH_ID with a smaller identifier than before",
            ));
        }

        self.max_push = Some(id);
        Ok(())
    }

    /// RFC 9218, section 7.2: only clients send it, of request streams.
    fn priority(&self, stream: u64, value: &[u8]) -> Result<ControlEvent, Fault> {
        if self.role == Role::Client {
            return Err(UNEXPECTED);
        }
        if !is_request(stream) {
            return Err(Fault::connection(
                Code::IdError,
                "PRIORITY_UPDATE of an ID that is not a request stream's",
            ));
        }

        Ok(ControlEvent::Priority {
            stream,
            priority: Priority::parse(value),
        })
    }
}

const UNEXPECTED: Fault =
    Fault::connection(Code::FrameUnexpected, "a frame that this side never gets");

/// Whether a stream is bidirectional and the client's (RFC 9000, section 2.1).
pub fn is_request(stream: u64) -> bool {
    stream & 0x3 == 0
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn settled(role: Role) -> Control {
        let mut control = Control::new(role);
        let settings = control.handle_frame(&Frame::Settings(Bytes::from_static(&[0x33, 1])));
        assert_eq!(
            settings,
            Ok(Some(ControlEvent::Settings(Settings {
                datagrams: true,
                ..Settings::default()
            })))
        );
        control
    }

    fn code(control: &mut Control, frame: &Frame) -> Option<Code> {
        control.handle_frame(frame).err().map(|fault| fault.code)
    }

    #[test]
    fn settings_come_first_and_once() {
        assert_eq!(
            code(&mut Control::new(Role::Server), &Frame::Goaway(0)),
            Some(Code::MissingSettings)
        );
        let again = code(&mut settled(Role::Server), &Frame::Settings(Bytes::new()));
        assert_eq!(again, Some(Code::FrameUnexpected));
    }

    #[test]
    fn goaway_of_a_server_names_request_streams_that_do_not_grow() {
        let mut control = settled(Role::Client);
        assert_eq!(code(&mut control, &Frame::Goaway(3)), Some(Code::IdError));
        for id in [8, 8, 4] {
            assert_eq!(
                control.handle_frame(&Frame::Goaway(id)),
                Ok(Some(ControlEvent::Goaway(id)))
            );
        }
        assert_eq!(code(&mut control, &Frame::Goaway(8)), Some(Code::IdError));
    }

    #[test]
    fn goaway_of_a_client_names_pushes() {
        let mut control = settled(Role::Server);
        assert_eq!(
            control.handle_frame(&Frame::Goaway(3)),
            Ok(Some(ControlEvent::Goaway(3)))
        );
        assert_eq!(code(&mut control, &Frame::Goaway(4)), Some(Code::IdError));
    }

    #[test]
    fn pushes_are_allowed_but_never_named() {
        let mut server = settled(Role::Server);
        assert_eq!(server.handle_frame(&Frame::MaxPushId(7)), Ok(None));
        assert_eq!(code(&mut server, &Frame::MaxPushId(6)), Some(Code::IdError));
        assert_eq!(
            code(&mut server, &Frame::CancelPush(0)),
            Some(Code::IdError)
        );
        assert_eq!(
            code(&mut server, &Frame::PriorityUpdatePush),
            Some(Code::IdError)
        );
        assert_eq!(
            code(&mut settled(Role::Client), &Frame::MaxPushId(0)),
            Some(Code::FrameUnexpected)
        );
        assert_eq!(
            code(&mut settled(Role::Client), &Frame::PriorityUpdatePush),
            Some(Code::FrameUnexpected)
        );
    }

    #[test]
    fn priorities_come_from_clients_and_concern_request_streams() {
        let update = |stream| Frame::PriorityUpdate {
            stream,
            value: Bytes::from_static(b"u=1"),
        };
        let mut server = settled(Role::Server);
        let priority = Priority {
            urgency: 1,
            incremental: false,
        };
        let expected = ControlEvent::Priority {
            stream: 4,
            priority,
        };
        assert_eq!(server.handle_frame(&update(4)), Ok(Some(expected)));
        assert_eq!(code(&mut server, &update(5)), Some(Code::IdError));
        assert_eq!(
            code(&mut settled(Role::Client), &update(4)),
            Some(Code::FrameUnexpected)
        );
    }

    proptest! {
        #[test]
        fn what_was_taken_of_goaway_never_grows(ids in proptest::collection::vec(0_u64..40, 0..20)) {
            let mut control = settled(Role::Client);
            let taken = ids.iter().filter_map(|id| control.handle_frame(&Frame::Goaway(*id)).ok().flatten());
            let taken: Vec<_> = taken.map(|event| match event { ControlEvent::Goaway(id) => id, _ => u64::MAX }).collect();
            prop_assert!(taken.windows(2).all(|pair| pair[1] <= pair[0]));
            prop_assert!(taken.iter().all(|id| is_request(*id)));
        }
    }
}
