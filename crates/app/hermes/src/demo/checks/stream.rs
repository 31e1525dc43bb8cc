//! A program that knows no proxy speaks to a TCP port; the server speaks first.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::demo::Scene;
use crate::demo::evidence::{Evidence, Latency};
use crate::demo::http_client::dial;
use crate::demo::journey;
use crate::demo::measure::median_of;
use crate::demo::origins::{GREETING, farewell};
use crate::demo::says::{Says, expect};

const LINE: &str = "select 1;\n";

/// Hears the greeting, has lines echoed, closes its own direction and still hears the farewell.
pub async fn check(scene: &Scene) -> Result<Evidence, String> {
    let mut overlay = Talk::open(scene.place.address("ALICE_DB")).await?;
    overlay.echo().await?;
    let journey = journey::follow(&scene.place, "DB:5432").await?;
    journey::expect_all_nodes(&journey.hops)?;

    let latency = Latency {
        overlay: median_of(async || overlay.echo().await).await?,
        direct: {
            let mut direct = Talk::open(scene.place.address("DB")).await?;
            median_of(async || direct.echo().await).await?
        },
    };

    overlay.close().await?;
    let proof = "DB spoke first, and last after our half-close".to_owned();
    Ok(Evidence {
        journey,
        proof,
        latency: Some(latency),
    })
}

/// A conversation with DB.
struct Talk {
    stream: BufReader<TcpStream>,
    said: usize,
}

impl Talk {
    /// Connects and hears the greeting without having said anything.
    async fn open(address: SocketAddr) -> Result<Self, String> {
        let mut talk = Self {
            stream: BufReader::new(dial(address).await?),
            said: 0,
        };
        talk.hear(GREETING).await?;
        Ok(talk)
    }

    /// Says a line and hears it again.
    async fn echo(&mut self) -> Result<(), String> {
        self.stream
            .write_all(LINE.as_bytes())
            .await
            .says("a line to DB")?;
        self.said += LINE.len();
        self.hear(LINE).await
    }

    /// The client has ended its direction; the rest of DB's bytes has to arrive.
    async fn close(mut self) -> Result<(), String> {
        self.stream.shutdown().await.says("the half-close")?;
        self.hear(&farewell(self.said)).await?;
        let mut rest = Vec::new();
        self.stream
            .read_to_end(&mut rest)
            .await
            .says("the end of DB's direction")?;

        expect(rest.is_empty(), || {
            format!("DB said {} bytes too many", rest.len())
        })
    }

    async fn hear(&mut self, expected: &str) -> Result<(), String> {
        let mut line = String::new();
        self.stream
            .read_line(&mut line)
            .await
            .says("a line from DB")?;

        expect(line == expected, || {
            format!("DB said {line:?} instead of {expected:?}")
        })
    }
}
