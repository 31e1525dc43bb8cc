//! The film: made by ffmpeg, sent and received by it as RTP, and looked at frame by frame.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Frames of a second, as in the paper.
pub(super) const FRAME_RATE: u32 = 30;

/// Bytes of MPEG-TS in one packet of RTP: seven of its packets.
const PACKET: u32 = 1316;

/// Seconds that a receiver waits for a packet.
const PATIENCE: &str = "300";

/// A film that is there.
pub(super) struct Film {
    folder: tempfile::TempDir,
    /// Frames that are looked at: a last second behind them makes up for the packets that are on their way when the receiver ends.
    pub frames: u32,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The received part of a film.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedFilm {
    pub frames: u32,
    /// Macroblocks that the decoder finds broken.
    pub broken: usize,
}

impl Film {
    /// Makes a film of so many seconds, with something moving in each part of the picture, at 2 Mbit/s.
    ///
    /// # Errors
    /// There is no ffmpeg, or it fails.
    pub(super) fn make(seconds: u32) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        let file = folder.path().join("film.ts");
        let picture = format!("testsrc2=size=640x360:rate={FRAME_RATE}");
        let words = "-c:v libx264 -preset fast -g 60 -b:v 2M -maxrate 2M -bufsize 3968k -pix_fmt yuv420p -f mpegts";
        let status = Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-f",
                "lavfi",
                "-i",
                &picture,
                "-t",
                &(seconds + 1).to_string(),
            ])
            .args(words.split(' '))
            .arg(&file)
            .status()
            .context("ffmpeg: install it, as by `apt-get install ffmpeg`")?;
        ensure!(status.success(), "ffmpeg makes no film");
        let bytes = fs::metadata(&file)?.len();
        Ok(Self {
            folder,
            frames: seconds * FRAME_RATE,
            bytes,
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("film.ts")
    }

    /// The words for ffmpeg that send it at its own speed to a port of the same machine.
    pub(super) fn sending(&self, port: u16) -> Vec<String> {
        let file = self.file().to_string_lossy().into_owned();
        let to = format!("rtp://127.0.0.1:{port}?pkt_size={PACKET}");
        let words = [
            "-v",
            "error",
            "-re",
            "-i",
            &file,
            "-c",
            "copy",
            "-f",
            "rtp_mpegts",
            &to,
        ];
        words.map(str::to_owned).to_vec()
    }
}

/// The words for ffmpeg that receive a film, and keep it as it comes: with the same buffers for all systems.
///
/// A session description (RFC 8866) tells it the payload type: by itself it opens its port twice, and misses the packets in between. It waits for
/// the film as long as other systems need to open, where its default gives up after 10 s of silence, and writes each packet at once: when it is told
/// to end, it would discard up to 256 KiB that it has not written, and so the end of the film.
///
/// # Errors
/// The description cannot be written.
pub(super) fn receiving(port: u16, folder: &Path) -> Result<Vec<String>> {
    let description = folder.join("film.sdp");
    let lines = format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=film\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video {port} RTP/AVP 33\r\n"
    );
    fs::write(&description, lines)?;
    let from = description.to_string_lossy();
    let file = received(folder);
    let file = file.to_string_lossy();
    let before = ["-v", "error", "-y", "-protocol_whitelist", "file,udp,rtp"];
    let input = ["-buffer_size", "26214400", "-listen_timeout", PATIENCE];
    let output = ["-c", "copy", "-flush_packets", "1", "-f", "mpegts", &*file];
    let words = [&before[..], &input, &["-i", &*from], &output].concat();
    Ok(words.into_iter().map(str::to_owned).collect())
}

/// The file of a received film.
pub(super) fn received(folder: &Path) -> PathBuf {
    folder.join("received.ts")
}

/// Decodes a received film, and counts.
///
/// # Errors
/// ffmpeg cannot be run.
pub(super) fn look(file: &Path, frames: u32) -> Result<ReceivedFilm> {
    let output = Command::new("ffmpeg")
        .args(["-hide_banner", "-v", "error", "-progress", "pipe:1", "-i"])
        .arg(file)
        .args(["-map", "0:v", "-t", &(frames / FRAME_RATE).to_string()])
        .args(["-f", "null", "-"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut frames = said.lines().filter_map(|line| line.strip_prefix("frame="));
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok(ReceivedFilm {
        frames: frames
            .next_back()
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0),
        broken: broken(&errors),
    })
}

/// The lines of a decoder about macroblocks; ffmpeg says how often the last one came again.
fn broken(errors: &str) -> usize {
    let mut count = 0;
    let mut is_counted = false;
    for line in errors.lines() {
        match line.trim().strip_prefix("Last message repeated ") {
            Some(rest) if is_counted => {
                let times = rest
                    .split(' ')
                    .next()
                    .and_then(|times| times.parse::<usize>().ok());
                count += times.unwrap_or(0);
            }
            Some(_) => {}
            None => {
                is_counted = line.contains("error while decoding MB");
                count += usize::from(is_counted);
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_macroblocks_are_counted_with_their_repeats() {
        let said = "[h264] error while decoding MB 3 4, bytestream -5\n    Last message repeated 2 times\n\
                    [mpegts] corrupt packet\n    Last message repeated 9 times\n[h264] error while decoding MB 1 1\n";
        assert_eq!(broken(said), 4);
    }
}
