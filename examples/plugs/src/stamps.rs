//! A transform that stamps the datagrams of tunnels of UDP, drops some and ends tunnels over others.

use bytes::{BufMut, BytesMut};
use hermes_plug::{
    AlterDatagram, AlteringDatagrams, Beginning, BeginningDatagrams, DatagramFate, Transform,
    TunnelSubject,
};

/// Puts the name of the user before each datagram that leaves, and takes it off those that come back. Comments, which begin with `#`, go
/// no further, and no one may send a `!`.
pub struct Stamps;

impl Transform for Stamps {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let stamp = format!("{}:", tunnel.user.unwrap_or("anyone"));
        let altering = AlteringDatagrams {
            to_target: Box::new(Stamped(stamp.clone())),
            to_client: Box::new(Unstamped(stamp)),
        };
        Box::pin(std::future::ready(Ok(Some(altering))))
    }
}

/// Datagrams that leave.
struct Stamped(String);

impl AlterDatagram for Stamped {
    fn alter(&mut self, datagram: &[u8], output: &mut BytesMut) -> Result<DatagramFate, String> {
        match datagram.first() {
            Some(b'#') => Ok(DatagramFate::Dropped),
            Some(b'!') => Err("no one may shout here".to_owned()),
            _ => {
                output.put_slice(self.0.as_bytes());
                output.put_slice(datagram);
                Ok(DatagramFate::Changed)
            }
        }
    }
}

/// Datagrams that come back.
struct Unstamped(String);

impl AlterDatagram for Unstamped {
    fn alter(&mut self, datagram: &[u8], output: &mut BytesMut) -> Result<DatagramFate, String> {
        let Some(rest) = datagram.strip_prefix(self.0.as_bytes()) else {
            return Ok(DatagramFate::Unchanged);
        };
        output.put_slice(rest);
        Ok(DatagramFate::Changed)
    }
}
