//! The session's socket as a stdio server; see [`custody_bridge`].

use std::{io::Write as _, path::Path, process::ExitCode};

fn main() -> ExitCode {
    match custody_bridge::run(Path::new(custody_bridge::SOCKET)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard output is the protocol's; if standard error is gone too, the status says it.
            match writeln!(std::io::stderr(), "custody-bridge: {error}") {
                Ok(()) | Err(_) => ExitCode::FAILURE,
            }
        }
    }
}
