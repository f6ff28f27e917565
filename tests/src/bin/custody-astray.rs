//! `custody-astray`: a launcher that lies, in the place of custody-launch.

fn main() -> anyhow::Result<()> {
    custody_tests::refused::astray::main()
}
