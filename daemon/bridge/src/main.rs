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
    let path = Path::new(custody_bridge::SOCKET);
    let mut arguments = std::env::args_os().skip(1);
    let done = if arguments.next().is_some_and(|it| it == "--stream") {
        let name = arguments.next().unwrap_or_default();
        let mut output = std::io::stdout().lock();
        custody_bridge::stream(path, &name.to_string_lossy(), &mut output)
            .map_err(|error| error.to_string())
    } else {
        custody_bridge::run(path).map_err(|error| error.to_string())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard output is the protocol's; if standard error is gone too, the status says it.
            match writeln!(std::io::stderr(), "custody-bridge: {error}") {
                Ok(()) | Err(_) => ExitCode::FAILURE,
            }
        }
    }
}
