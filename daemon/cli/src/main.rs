//! custody: see the library.

fn main() -> custody_cli::exit::Exit {
    custody_cli::main()
}
