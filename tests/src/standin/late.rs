//! Sockets that appear while a session runs: one with such a socket in its workspace does not start.

use std::{fs, io, path::PathBuf, sync::Arc, thread, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Upstream, bind, deputy, giver, listen};

/// How often it looks.
const OFTEN: Duration = Duration::from_millis(10);

/// What listens while a file is there.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// The file.
    pub door: PathBuf,
    /// The path of a stream deputy.
    pub stream: PathBuf,
    /// The path where a connection is handed out.
    pub giver: PathBuf,
}

/// Listens while the door is there.
pub(super) fn attend(late: &Late, upstream: &Arc<Upstream>) -> io::Result<()> {
    loop {
        wait_until(late, true);
        listen(bind(&late.giver)?, upstream, giver::serve);
        listen(bind(&late.stream)?, upstream, deputy::stream);
        wait_until(late, false);
        fs::remove_file(&late.stream)?;
        fs::remove_file(&late.giver)?;
    }
}

fn wait_until(late: &Late, is_there: bool) {
    while late.door.exists() != is_there {
        thread::sleep(OFTEN);
    }
}
