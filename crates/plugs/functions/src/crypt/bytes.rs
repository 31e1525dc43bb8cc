//! Encrypted tunnels of bytes.
//!
//! ```text
//! Near the client sends   VERSION, SALT, records      and first an empty record: it proves who is there before a byte comes
//! Near the target sends   SALT, records               once it has that proof; its keys depend on both salts
//! Record                  KIND (0 data, 1 end), LENGTH (16 bits), sealed bytes and tag
//! ```
//!
//! Records are numbered from 0 on, their heads are sealed with them. A direction without its `end` was cut off.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ::bytes::{Buf, BufMut, Bytes, BytesMut};
use hermes_plug::{Alter, Malformed, PIECE};
use parking_lot::Mutex;

use super::now;
use super::seal::{SALT, Salt, Sealer, TAG, TunnelKeys};

/// The version of this format.
const VERSION: u8 = 1;

/// The head of a record.
const HEAD: usize = 3;

/// Bytes in a record: sealed, and with a salt before it, it is no longer than a piece may be.
const RECORD: usize = PIECE - HEAD - TAG - HEAD - TAG - SALT - 1;

const DATA: u8 = 0;
const END: u8 = 1;

/// The salt of the end near the client, once it is proved.
#[derive(Default)]
pub struct Hello(Mutex<HelloState>);

#[derive(Default)]
struct HelloState {
    salt: Option<Salt>,
    waits: Option<Waker>,
}

impl Hello {
    fn set(&self, salt: Salt) {
        let mut state = self.0.lock();
        state.salt = Some(salt);
        if let Some(waker) = state.waits.take() {
            waker.wake();
        }
    }

    fn salt(&self) -> Option<Salt> {
        self.0.lock().salt
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        match state.salt {
            Some(_) => Poll::Ready(()),
            None => {
                state.waits = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Writes records.
struct RecordWriter {
    sealer: Sealer,
    number: u64,
}

impl RecordWriter {
    fn new(sealer: Sealer) -> Self {
        Self { sealer, number: 0 }
    }

    fn write(&mut self, kind: u8, data: &[u8], output: &mut BytesMut) -> Result<(), Malformed> {
        let length = u16::try_from(data.len()).map_err(|_| malformed("a record is too long"))?;
        let [high, low] = length.to_be_bytes();
        let head = [kind, high, low];
        output.put_slice(&head);
        let from = output.len();
        output.put_slice(data);
        let sealed = self.sealer.seal(self.number, &head, output, from);
        if sealed.is_err() {
            // No part of it may leave in the clear.
            output.clear();
            return Err(malformed("it could not be sealed"));
        }
        self.number += 1;
        Ok(())
    }

    /// A record of the next bytes.
    fn take(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        if input.is_empty() {
            return Ok(());
        }
        let data = input.split_to(input.len().min(RECORD));
        self.write(DATA, &data, output)
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        self.write(END, &[], output)?;
        Ok(true)
    }
}

/// Reads records.
struct RecordReader {
    sealer: Sealer,
    number: u64,
    has_ended: bool,
}

impl RecordReader {
    fn new(sealer: Sealer) -> Self {
        Self {
            sealer,
            number: 0,
            has_ended: false,
        }
    }

    /// Opens the next record of `buffer`, whose bytes go to `output`; false if it is not whole.
    fn read(&mut self, buffer: &mut BytesMut, output: &mut BytesMut) -> Result<bool, Malformed> {
        if self.has_ended && !buffer.is_empty() {
            return Err(malformed("bytes follow the end"));
        }
        let Some(head) = buffer.first_chunk::<HEAD>().copied() else {
            return Ok(false);
        };
        let [kind, high, low] = head;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > RECORD {
            return Err(malformed("a record is too long"));
        }
        let whole = HEAD + length + TAG;
        if buffer.len() < whole {
            return Ok(false);
        }
        let mut record = buffer.split_to(whole);
        let opened = self
            .sealer
            .open(self.number, &head, &mut record[HEAD..])
            .ok_or_else(|| malformed("a record is not genuine"))?;
        // The kind is genuine as well: the head was sealed with the record.
        self.number += 1;
        self.has_ended = kind == END;
        output.put_slice(opened);
        Ok(true)
    }

    fn end(&self, buffer: &BytesMut) -> Result<bool, Malformed> {
        match self.has_ended && buffer.is_empty() {
            true => Ok(true),
            false => Err(malformed("it is cut off")),
        }
    }
}

/// Takes what a record still lacks from `input`, and no more: `buffer` stays as small as one.
fn fill(buffer: &mut BytesMut, input: &mut Bytes) {
    let wanted = (HEAD + RECORD + TAG).saturating_sub(buffer.len());
    let part = input.split_to(input.len().min(wanted));
    buffer.put_slice(&part);
}

/// Seals towards the target, and begins.
pub struct HelloSealer {
    keys: TunnelKeys,
    hello: Arc<Hello>,
    writer: Option<RecordWriter>,
}

impl HelloSealer {
    pub fn new(keys: TunnelKeys, hello: Arc<Hello>) -> Self {
        Self {
            keys,
            hello,
            writer: None,
        }
    }

    fn writer(&mut self, output: &mut BytesMut) -> Result<&mut RecordWriter, Malformed> {
        if self.writer.is_none() {
            let now = now();
            let salt = Salt::new(now).ok_or_else(|| malformed("there is no randomness"))?;
            let taken = self.keys.take(&salt, now);
            taken.map_err(|_| malformed("too many tunnels at once"))?;
            let sealer = self.keys.sealer(&salt.0, "up");
            let sealer = sealer.ok_or_else(|| malformed("there is no key"))?;
            let mut writer = RecordWriter::new(sealer);
            output.put_u8(VERSION);
            output.put_slice(&salt.0);
            // Sent before the client says anything: a target that speaks first waits for this proof.
            writer.write(DATA, &[], output)?;
            self.hello.set(salt);
            self.writer = Some(writer);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| malformed("there is no key"))
    }
}

impl Alter for HelloSealer {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        self.writer(output)?.take(input, output)
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        self.writer(output)?.end(output)
    }
}

/// Opens what is sealed towards the target.
pub struct HelloOpener {
    keys: TunnelKeys,
    hello: Arc<Hello>,
    buffer: BytesMut,
    reader: Option<RecordReader>,
    salt: Option<Salt>,
}

impl HelloOpener {
    pub fn new(keys: TunnelKeys, hello: Arc<Hello>) -> Self {
        Self {
            keys,
            hello,
            buffer: BytesMut::new(),
            reader: None,
            salt: None,
        }
    }

    /// Reads the beginning; false if it is not whole.
    fn begin(&mut self) -> Result<bool, Malformed> {
        if self.reader.is_some() {
            return Ok(true);
        }
        if self
            .buffer
            .first()
            .is_some_and(|version| *version != VERSION)
        {
            return Err(malformed("it is not encrypted, or in another version"));
        }
        if self.buffer.len() < 1 + SALT {
            return Ok(false);
        }
        self.buffer.advance(1);
        let salt = take_salt(&mut self.buffer)?;
        let sealer = self.keys.sealer(&salt.0, "up");
        let sealer = sealer.ok_or_else(|| malformed("there is no key"))?;
        self.reader = Some(RecordReader::new(sealer));
        self.salt = Some(salt);
        Ok(true)
    }

    /// Believes the salt once its first record was genuine.
    fn prove(&mut self) -> Result<(), Malformed> {
        if let Some(salt) = self.salt.take() {
            let taken = self.keys.take(&salt, now());
            taken.map_err(|_| malformed("its beginning is too old, or was here before"))?;
            self.hello.set(salt);
        }
        Ok(())
    }
}

impl Alter for HelloOpener {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        loop {
            fill(&mut self.buffer, input);
            if !self.begin()? {
                return Ok(());
            }
            let Some(reader) = &mut self.reader else {
                return Ok(());
            };
            if !reader.read(&mut self.buffer, output)? {
                return Ok(());
            }
            self.prove()?;
            // Empty records leave no output, and would look as if more had to come.
            if !output.is_empty() {
                return Ok(());
            }
        }
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        match &self.reader {
            Some(reader) => reader.end(&self.buffer),
            None => Err(malformed("it is cut off")),
        }
    }
}

/// Seals towards the client, once the other end has begun.
pub struct ReplySealer {
    keys: TunnelKeys,
    hello: Arc<Hello>,
    writer: Option<RecordWriter>,
}

impl ReplySealer {
    pub fn new(keys: TunnelKeys, hello: Arc<Hello>) -> Self {
        Self {
            keys,
            hello,
            writer: None,
        }
    }

    fn writer(&mut self, output: &mut BytesMut) -> Result<&mut RecordWriter, Malformed> {
        if self.writer.is_none() {
            let hello = self.hello.salt();
            let hello = hello.ok_or_else(|| malformed("the other end has not begun"))?;
            let salt = Salt::new(now()).ok_or_else(|| malformed("there is no randomness"))?;
            output.put_slice(&salt.0);
            self.writer = Some(RecordWriter::new(reply_sealer(&self.keys, &hello, &salt)?));
        }
        self.writer
            .as_mut()
            .ok_or_else(|| malformed("there is no key"))
    }
}

impl Alter for ReplySealer {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hello.poll(cx)
    }

    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        self.writer(output)?.take(input, output)
    }

    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed> {
        self.writer(output)?.end(output)
    }
}

/// Opens what is sealed towards the client.
pub struct ReplyOpener {
    keys: TunnelKeys,
    hello: Arc<Hello>,
    buffer: BytesMut,
    reader: Option<RecordReader>,
}

impl ReplyOpener {
    pub fn new(keys: TunnelKeys, hello: Arc<Hello>) -> Self {
        Self {
            keys,
            hello,
            buffer: BytesMut::new(),
            reader: None,
        }
    }
}

impl Alter for ReplyOpener {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        fill(&mut self.buffer, input);
        if self.reader.is_none() {
            if self.buffer.len() < SALT {
                return Ok(());
            }
            let hello = self.hello.salt();
            let hello = hello.ok_or_else(|| malformed("the other end spoke first"))?;
            let salt = take_salt(&mut self.buffer)?;
            let sealer = reply_sealer(&self.keys, &hello, &salt)?;
            self.reader = Some(RecordReader::new(sealer));
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        loop {
            fill(&mut self.buffer, input);
            if !reader.read(&mut self.buffer, output)? || !output.is_empty() {
                return Ok(());
            }
        }
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        match &self.reader {
            Some(reader) => reader.end(&self.buffer),
            None => Err(malformed("it is cut off")),
        }
    }
}

/// The keys towards the client are new in each tunnel for both ends: an old answer opens in none.
fn reply_sealer(keys: &TunnelKeys, hello: &Salt, reply: &Salt) -> Result<Sealer, Malformed> {
    let both = [hello.0, reply.0].concat();
    let sealer = keys.sealer(&both, "down");
    sealer.ok_or_else(|| malformed("there is no key"))
}

fn take_salt(buffer: &mut BytesMut) -> Result<Salt, Malformed> {
    let salt = buffer.first_chunk::<SALT>().copied();
    let salt = salt.ok_or_else(|| malformed("it is cut off"))?;
    buffer.advance(SALT);
    Ok(Salt(salt))
}

fn malformed(reason: &str) -> Malformed {
    Malformed(reason.to_owned())
}
