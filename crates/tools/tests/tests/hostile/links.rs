//! Links over HTTP/3 whose streams stand still: they fill the link's window, and must not keep the others from going on.

use std::collections::BTreeMap;

use hermes_tests::frames::{RST_STREAM, parse};
use hermes_tests::h2c::Client;
use hermes_tests::{Node, eventually};

use crate::standing::{
    Chain, MIB, generous, mute, others_are_served, others_are_taken, settled, stopped, uploads,
};

/// What a link may cost a node on each side, in bytes: four times `memory.connection` unread, with packets that are full in part only up
/// to two and a half times that, and what its streams hold: a fifth of a MiB each in a crowd.
const COST: usize = 224 * MIB;

/// Streams that stand still: so few leave the link room, more than 32 do not.
const FEW: u32 = 16;
const MANY: u32 = 48;
const CROWD: u32 = 300;

/// What the record of an exchange says that was ended for it.
const ENDED: &str = "memory: the stream was ended";

fn ended(node: &Node) -> usize {
    node.access()
        .iter()
        .filter(|record| record["reason"].to_string().contains(ENDED))
        .count()
}

/// How many exchanges ended for which reason.
fn reasons(node: &Node) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for record in node.access() {
        *reasons.entry(record["reason"].to_string()).or_default() += 1;
    }
    reasons
}

fn stand_still(entry: &Node, streams: u32) {
    let most = streams as usize * 3 / 4;
    eventually("the exchanges", || {
        (entry.exchanges().len() + ended(entry) >= most).then_some(())
    });
}

#[test]
fn readers_that_stop_behind_a_link_over_http_3_do_not_stop_the_others() {
    let authority = generous();
    for streams in [MANY, CROWD] {
        let Chain { entry, end, .. } = &Chain::over(3);
        let before = [entry.peak(), end.peak()];
        let client = stopped(entry.address("web"), &authority, 0x7fff_ffff, streams);
        stand_still(entry, streams);
        for _ in 0..5 {
            others_are_served(entry, &["-x", &entry.url("web")]);
        }
        let record = entry.record(|record| record["reason"].to_string().contains(ENDED));
        assert!(
            record.to_string().contains("memory.connection"),
            "{record:#}"
        );
        for (node, before) in [entry, end].into_iter().zip(before) {
            let cost = settled(node).saturating_sub(before);
            assert!(
                cost < COST,
                "{cost} bytes with {streams} streams: {:#}",
                node.status()
            );
        }
        assert!(
            !entry.exchanges().is_empty(),
            "no more are ended than is needed, but these were: {:#?}",
            reasons(entry)
        );
        drop(client);
        entry.idle();
        end.idle();
    }
}

#[test]
fn readers_that_stop_while_the_link_has_room_are_left_alone() {
    let authority = generous();
    let Chain { entry, end, .. } = &Chain::over(3);
    let mut client = stopped(entry.address("web"), &authority, 0, FEW);
    eventually("the exchanges", || {
        (entry.exchanges().len() == FEW as usize).then_some(())
    });
    settled(entry);
    for _ in 0..20 {
        others_are_served(entry, &["-x", &entry.url("web")]);
    }
    eventually("those that stand still, and no others", || {
        (entry.exchanges().len() == FEW as usize).then_some(())
    });
    assert_eq!(ended(entry), 0);

    // And they still are what they were: the client hears of no reset until it goes.
    client.finish();
    let heard = client.rest().0;
    assert!(parse(&heard).iter().all(|frame| frame.0 != RST_STREAM));
    entry.idle();
    end.idle();
}

#[test]
fn uploads_that_stop_behind_a_link_over_http_3_do_not_stop_the_others() {
    let mute = mute();
    let Chain { entry, end, .. } = &Chain::over(3);
    let before = [entry.peak(), end.peak()];
    let client = Client::connect(entry.address("web"));
    let stalled = uploads(&client, &mute, MANY as usize);
    // The first may have been ended for the link's memory before the last arrives, and the last before the link had room for it. Each
    // part has its time: a busy machine encrypts slowly.
    for part in 1..=4 {
        let wanted = MANY as usize * part / 4;
        eventually("the exchanges", || {
            (end.exchanges().len() + entry.access().len() >= wanted).then_some(())
        });
    }
    for _ in 0..5 {
        others_are_taken(entry, &["-x", &entry.url("web")]);
    }
    let record = end.record(|record| record["reason"].to_string().contains("memory.connection"));
    assert_eq!(record["status"], 504, "{record:#}");
    for (node, before) in [entry, end].into_iter().zip(before) {
        let cost = settled(node).saturating_sub(before);
        assert!(cost < COST, "{cost} bytes: {:#}", node.status());
    }
    drop((stalled, client));
    entry.idle();
    end.idle();
}
