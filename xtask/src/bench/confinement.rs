//! `bench confinement`: one probe inside bare, inside every other sandbox that is installed, and
//! inside ours; then what our confinement costs beside the same work bare. It lists, it does not
//! rank: some of them mean to allow what the probe tries.

mod kill;
mod matrix;
mod peers;
mod syscalls;
mod workloads;

use anyhow::Result;

use super::launch;
use crate::{
    places::Places,
    room::{Room, daemon::Daemon, service::Service},
    say,
};

pub(super) use syscalls::compare_with_bare;
pub(crate) use syscalls::{Args as LoopArgs, run as measuring_loop};

pub(super) fn run(places: &Places, turns: usize, install: bool) -> Result<()> {
    if install {
        peers::install(places)?;
    }
    beside_bare(places, turns)?;
    say::step("launch");
    launch::run(places, turns)
}

fn beside_bare(places: &Places, turns: usize) -> Result<()> {
    let room = Room::make(places)?;
    let service = Service::start(places, &room)?;
    room.write_policy(places, service.address())?;
    room.show_own_program()?;
    let daemon = Daemon::start(&room)?;
    say::step("one probe in each");
    matrix::run(places, &room, &daemon)?;
    say::step("system calls, beside the same bare");
    compare_with_bare(&room, &daemon, turns)?;
    say::step("the end of a session");
    kill::run(&daemon, turns)?;
    say::step("work, beside the same bare");
    workloads::run(&room, &daemon, turns)
}
