//! Records that the disk has written. Bytes of an exchange are read, passed on, acknowledged and acted on only once they are in its file.

use std::time::Instant;

use hermes_proto::custody::ObjectPart;

use super::Engine;
use super::exchange::{Event, ExchangeKey, Side, object};
use crate::room::Room;

impl Engine {
    /// Goes on with the exchanges of which something was written. To be called whenever the disk has [written](crate::Disk) something,
    /// and when it has not though there was something to write.
    pub fn handle_written(&mut self, now: Instant) {
        let Some(disk) = self.keeping.disk.clone() else {
            return;
        };
        // Nothing waits for a folder that stands still: exchanges whose records are queued go on in memory.
        if disk.stands_still() {
            self.give_up_logs();
        }
        let grown = disk.take_grown();
        if grown.is_empty() {
            return;
        }
        for log in grown {
            if let Some(key) = self.keeping.logs.get(&log) {
                self.settle(*key, now);
            }
        }
        // Bytes in a file take no memory.
        self.writers.has_room();
    }

    /// Whether something is still to be written, or was and is not [known](Self::handle_written).
    pub fn is_writing(&self) -> bool {
        let disk = self.keeping.disk.as_ref();
        disk.is_some_and(|disk| disk.is_writing())
    }

    /// Bytes that may be held beside those that are.
    pub(super) fn room_beside(&self, held: u64) -> Room {
        let disk = self.keeping.disk.as_ref();
        Room {
            is_disk_full: disk.is_some_and(|disk| disk.is_full()),
            ..Room::of(held)
        }
    }

    /// Has an exchange acted on as soon as its records so far are on disk: without them, a restart would have it acted on again.
    pub(super) fn act_on(&mut self, key: ExchangeKey) {
        let Some(known) = self.exchanges.get_mut(&key) else {
            return;
        };
        known.acts_behind = known.log.as_ref().and_then(|log| {
            let mut log = log.lock();
            let end = log.end();
            (!log.settled().has(end)).then_some(end)
        });
        if known.acts_behind.is_none() {
            self.events.push_back(Event::Asked(key));
        }
    }

    /// Goes on with an exchange of which something was written, or which is kept in memory from now on.
    fn settle(&mut self, key: ExchangeKey, now: Instant) {
        let Some(known) = self.exchanges.get_mut(&key) else {
            return;
        };
        let Some(log) = known.log.clone() else {
            return;
        };
        let settled = log.lock().settled();
        let end = log.lock().end();
        if known.acts_behind.is_some_and(|end| settled.has(end)) {
            known.acts_behind = None;
            self.events.push_back(Event::Asked(key));
        }

        let is_asking = matches!(known.side, Side::Asking { .. });
        let [written, read] = match is_asking {
            true => [ObjectPart::Request, ObjectPart::Response],
            false => [ObjectPart::Response, ObjectPart::Request],
        };
        let written = object(key, written);
        let read = object(key, read);
        let neighbour = &mut self.neighbours[key.neighbour.0];
        neighbour.sender.settle(written);
        let taken = neighbour.receiver.settle(read, now);
        let extent = neighbour.sender.extent(written);
        let has_begun = extent.is_some_and(|extent| extent.available > 0);
        // The first REQ carries the OFFER, and the beginning of the request with it.
        if is_asking && (has_begun || settled.has(end)) {
            neighbour.receiver.let_ask(read, now);
        }
        self.tell(key.neighbour, read, taken);
    }

    /// Gives up the files of a folder that stands still: their exchanges go on in memory.
    fn give_up_logs(&mut self) {
        let known = self.exchanges.values();
        for log in known.filter_map(|known| known.log.as_ref()) {
            log.lock().give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use bytes::Bytes;
    use hermes_noise::PrivateKey;
    use tempfile::TempDir;

    use super::super::{Opening, Reading};
    use super::*;
    use crate::disk::Disk;
    use crate::room::GUARANTEED;

    /// A client, and a server that keeps its exchanges on disk.
    struct Pair {
        client: Engine,
        server: Engine,
        key: ExchangeKey,
        now: Instant,
        disk: Disk,
        _folder: TempDir,
    }

    fn at(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 4500).into()
    }

    impl Pair {
        fn new() -> Self {
            let now = Instant::now();
            let keys = [(); 2].map(|()| PrivateKey::generate().unwrap());
            let mut client = Engine::new(keys[0].clone(), 7, now);
            let neighbour = client.add_neighbour(keys[1].public(), Some(at(2)), now);
            let mut server = Engine::new(keys[1].clone(), 7, now);
            server.add_neighbour(keys[0].public(), None, now);
            let folder = tempfile::tempdir().unwrap();
            let disk = Disk::open(folder.path(), 1 << 24).unwrap();
            server.keep_on(disk.clone(), now);
            Self {
                client,
                server,
                key: ExchangeKey {
                    neighbour,
                    exchange: [7; 16],
                },
                now,
                disk,
                _folder: folder,
            }
        }

        /// Asks for something that may be done once.
        fn ask(&mut self) {
            let opening = Opening {
                keep: Duration::from_secs(60),
                repeatable: false,
                parent: None,
            };
            assert!(self.client.open(self.key, opening, self.now));
            self.client.write(self.key, Bytes::from_static(b"request"));
            self.client.finish(self.key);
        }

        /// Carries datagrams for a while. The exchanges that the server acts on.
        fn talk(&mut self) -> Vec<ExchangeKey> {
            let mut asked = Vec::new();
            for _ in 0..300 {
                while let Some((_, datagram)) = self.client.poll_transmit(self.now) {
                    self.server.handle_datagram(&datagram, at(1), self.now);
                }
                while let Some((_, datagram)) = self.server.poll_transmit(self.now) {
                    self.client.handle_datagram(&datagram, at(2), self.now);
                }
                while let Some(event) = self.server.poll_event() {
                    if let Event::Asked(key) = event {
                        asked.push(key);
                    }
                }
                self.now += Duration::from_millis(1);
            }
            asked
        }

        fn write_out(&mut self) {
            while self.server.is_writing() {
                self.server.handle_written(self.now);
                std::thread::yield_now();
            }
        }

        fn is_confirmed(&self) -> bool {
            let progress = self.client.progress(self.key, self.now);
            progress.unwrap().is_confirmed
        }
    }

    #[test]
    fn nothing_is_acknowledged_or_acted_on_before_it_is_on_disk() {
        let mut pair = Pair::new();
        pair.ask();
        let disk = pair.disk.clone();
        let paused = disk.pause();
        assert_eq!(pair.talk(), []);
        assert!(!pair.is_confirmed());

        drop(paused);
        pair.write_out();
        let paused = disk.pause();
        assert_eq!(
            pair.talk(),
            [],
            "that it was offered to no one else is not kept"
        );
        assert!(pair.is_confirmed());

        drop(paused);
        pair.write_out();
        let asked = pair.talk();
        assert_eq!(asked.len(), 1);
        let request = pair.server.read(asked[0], 100);
        assert_eq!(request, Reading::Bytes(Bytes::from_static(b"request")));

        // Nor is an answer given before.
        let paused = disk.pause();
        pair.server.write(asked[0], Bytes::from_static(b"answer"));
        pair.server.finish(asked[0]);
        pair.talk();
        assert_eq!(pair.client.read(pair.key, 100), Reading::Waiting);
        drop(paused);
        pair.write_out();
        pair.talk();
        let answer = pair.client.read(pair.key, 100);
        assert_eq!(answer, Reading::Bytes(Bytes::from_static(b"answer")));
        assert_eq!(pair.client.read(pair.key, 100), Reading::End);
    }

    #[test]
    fn what_waits_for_a_folder_that_stands_still_goes_on_in_memory() {
        let mut pair = Pair::new();
        let disk = pair.disk.clone();
        let release = disk.stand_still();
        pair.ask();
        let mut asked = pair.talk();
        // The file and its first records are to be written behind the operation that does not end.
        while !disk.stands_still() {
            std::thread::yield_now();
        }
        pair.server.handle_written(pair.now);
        asked.extend(pair.talk());
        pair.server.handle_written(pair.now);
        asked.extend(pair.talk());
        assert_eq!(asked.len(), 1, "it is acted on");
        pair.server.write(asked[0], Bytes::from_static(b"answer"));
        pair.server.finish(asked[0]);
        pair.server.handle_written(pair.now);
        pair.talk();
        let answer = pair.client.read(pair.key, 100);
        assert_eq!(answer, Reading::Bytes(Bytes::from_static(b"answer")));
        release.send(()).unwrap();
    }

    #[test]
    fn a_disk_that_does_not_keep_up_leaves_what_is_guaranteed() {
        let mut pair = Pair::new();
        pair.ask();
        let mut acted_on = Vec::new();
        while acted_on.is_empty() {
            acted_on = pair.talk();
            pair.write_out();
        }
        let asked = acted_on[0];
        let free = pair.server.room(asked) as u64;
        assert!(free > GUARANTEED);

        let disk = pair.disk.clone();
        let paused = disk.pause();
        disk.fill();
        assert_eq!(pair.server.room(asked) as u64, GUARANTEED);
        drop(paused);
        while disk.is_full() {
            std::thread::yield_now();
        }
        assert_eq!(pair.server.room(asked) as u64, free);

        // An exchange in memory waits for no disk.
        let _paused = disk.pause();
        disk.fill();
        pair.server.keep_in_memory(asked);
        assert_eq!(pair.server.room(asked) as u64, free);
    }
}
