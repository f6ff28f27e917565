//! Any text as a policy, any bytes as a compiled one: an error that says something, or a policy
//! that is read back as itself.

use gate::{id::PolicyName, policy::Policy};

pub(crate) fn run(data: &[u8]) {
    if let Ok(policy) = Policy::from_bytes(data) {
        assert_eq!(policy.to_bytes(), data);
    }
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let name = PolicyName::parse("fuzz").expect("a name");
    match Policy::compile(&name, text) {
        Ok(policy) => {
            let bytes = policy.to_bytes();
            let again = Policy::from_bytes(&bytes).expect("what we compile we read");
            assert_eq!(again.hash(), policy.hash());
            for tool in policy.tools().keys() {
                assert!(policy.input_schema(tool).is_some());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
