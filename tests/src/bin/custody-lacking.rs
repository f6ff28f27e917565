//! `custody-lacking`: runs a program as on a kernel that lacks system calls.

fn main() -> anyhow::Result<()> {
    custody_tests::host::lacking::main()
}
