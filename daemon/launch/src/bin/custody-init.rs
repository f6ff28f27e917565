//! Pid 1 of a session; see [`custody_launch::init`].

fn main() -> std::process::ExitCode {
    custody_launch::init::main()
}
