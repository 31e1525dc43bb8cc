//! One user who takes the addresses of a pool.

use super::{Attack, Effort, Party, Place, Stage};
use crate::capsules::UdpTunnel;

/// Tunnels that the user asks for: as many as the pool has addresses.
const TUNNELS: usize = 252;

/// Others, who ask then, for one each.
const OTHERS: usize = 20;

/// As many tunnels as there are addresses.
pub(super) const EMPTIED: Attack = Attack {
    name: "address-pool",
    by: Party::User,
    place: Place::Loopback,
    summary: "252 tunnels of one user to a pool of 252 addresses; 20 others ask for one before and after it leaves",
    prepare,
    run,
};

fn prepare() -> Stage {
    Stage::start(
        "overlay: { http: 127.0.0.1:0, public: true, insecure_trust: [127.0.0.0/8] }",
        "{ match: { kind: connect-ip }, terminate: { intercept: true, pool: 10.7.0.0/24 } }",
        "",
    )
}

fn run(stage: &Stage) -> Effort {
    let greedy: Vec<_> = (0..TUNNELS).filter_map(|_| ask(stage, "mallory")).collect();
    let before = refused_of_others(stage);
    drop(greedy);
    Effort {
        attempts: TUNNELS as u64,
        bytes: 200 * TUNNELS as u64,
        refused_of_others: before + refused_of_others(stage),
        ..Effort::default()
    }
}

/// The number of others without an address.
fn refused_of_others(stage: &Stage) -> u64 {
    let users = (0..OTHERS).map(|number| format!("user-{number}"));
    let tunnels: Vec<_> = users.map(|user| ask(stage, &user)).collect();
    tunnels.iter().filter(|tunnel| tunnel.is_none()).count() as u64
}

fn ask(stage: &Stage, user: &str) -> Option<UdpTunnel> {
    let fields = format!("user: {user}\r\n");
    let path = "/.well-known/masque/ip/*/*/";
    UdpTunnel::h1_for(stage.node.address("overlay"), "connect-ip", path, &fields).ok()
}
