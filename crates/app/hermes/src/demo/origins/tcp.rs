//! A server of the kind that speaks first, echoes, and has a last word when the client has said all.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The server's greeting.
pub const GREETING: &str = "hello from DB, who are you?\n";

/// Its goodbye once the client has closed its direction.
pub fn farewell(bytes: usize) -> String {
    format!("goodbye, you said {bytes} bytes\n")
}

/// Serves one connection; one that breaks off ends.
pub async fn serve(stream: TcpStream) {
    drop(converse(stream).await);
}

async fn converse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(GREETING.as_bytes()).await?;
    let mut buffer = [0; 16 * 1024];
    let mut heard = 0;

    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        heard += read;
        stream.write_all(&buffer[..read]).await?;
    }

    stream.write_all(farewell(heard).as_bytes()).await?;
    stream.shutdown().await
}
