//! Seals one process, then runs it; see [`custody_launch`].

fn main() -> std::process::ExitCode {
    custody_launch::main()
}
