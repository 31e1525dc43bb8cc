//! A transform that needs no peer: what the client sends leaves in capitals, and what comes back passes as it is.

use bytes::{Bytes, BytesMut};
use hermes_plug::{Alter, Altering, Beginning, Malformed, PIECE, Transform, TunnelSubject};

/// Puts what clients send in capitals.
pub struct Capitals;

impl Transform for Capitals {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let altering = Altering {
            to_target: Box::new(EachByte(|byte| byte.to_ascii_uppercase())),
            to_client: Box::new(EachByte(|byte| byte)),
        };
        Box::pin(std::future::ready(Ok(Some(altering))))
    }
}

/// Changes each byte by itself.
struct EachByte(fn(u8) -> u8);

impl Alter for EachByte {
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed> {
        let piece = input.split_to(input.len().min(PIECE));
        output.extend(piece.iter().map(|byte| self.0(*byte)));
        Ok(())
    }

    fn end(&mut self, _: &mut BytesMut) -> Result<bool, Malformed> {
        Ok(true)
    }
}
