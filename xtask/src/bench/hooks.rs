//! What BPF LSM programs cost a session: the loop of `bench confinement`, in profile `hardened`, on
//! a stock kernel.
//!
//! The machine is emulated: each instruction of the kernel costs many of the host's, those of the
//! programs (compiled by the kernel, then translated once more) others than those of a loop. What is
//! printed is processor time bare and in a session, by turns within one guest; the ratio is a hint,
//! the times are none.

use anyhow::{Result, bail};

use super::confinement::compare_with_bare;
use crate::{
    guest::{self, Series},
    places::{self, Places},
    room::{Room, daemon::Daemon},
    say,
};

/// Nobody serves there: no call is made.
const NOBODY: &str = "127.0.0.1:9";

/// Writable places for what a room leaves, with the programs where xtask looks for them.
const INSIDE: &str = r#"set -e
mkdir -p /var/tmp/target/custody
mount --bind /payload/custody /var/tmp/target/custody
export CUSTODY_XTASK_ROOT=/payload/checkout CUSTODY_XTASK_TARGET=/var/tmp/target
exec /payload/tests/xtask bench hooks --built --turns "$1""#;

/// On the host: boots the guest.
pub(super) fn in_guest(places: &Places, kernel: &Series, turns: usize) -> Result<()> {
    let output = places.target.join("guest/bench");
    guest::remove(&output)?;
    let turns = turns.to_string();
    let command = ["/bin/sh", "-c", INSIDE, "bench", &turns].map(str::to_owned);
    let mut options = guest::Options::new(kernel.clone(), output, command.to_vec());
    options.tests = vec![places::own_program()?];
    let outcome = guest::run(places, &options)?;
    if outcome.code != 0 {
        bail!(
            "the benchmark's exit status in the guest was {}",
            outcome.code
        );
    }
    Ok(())
}

/// In the guest.
pub(super) fn run(places: &Places, turns: usize) -> Result<()> {
    let room = Room::without_agent(places)?;
    room.write_policy_of(places, NOBODY.parse()?, "hardened")?;
    room.show_own_program()?;
    let daemon = Daemon::start(&room)?;
    say::step(
        "system calls in profile hardened, beside the same bare; emulated: ratios are a hint",
    );
    compare_with_bare(&room, &daemon, turns)
}
