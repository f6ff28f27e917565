//! The session's socket as a stdio server; see [`custody_bridge`].

use std::{io::Write as _, path::Path, process::ExitCode};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == "doctor")
    {
        return match custody_bridge::try_all(&mut std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE, // nobody reads
        };
    }
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
