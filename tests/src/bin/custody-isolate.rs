//! `custody-isolate`: makes namespaces as custodyd does and becomes custody-launch, for the
//! suite's isolating runs.

fn main() -> anyhow::Result<()> {
    custody_tests::suite::isolate::main()
}
