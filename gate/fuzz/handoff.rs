//! Any bytes as a handoff: refused with a reason, or four texts, of which none is known for it.

use std::sync::LazyLock;

use gate::{
    id::PolicyName,
    json::{Limits, Value, parse},
    policy::{OriginClass, Policy},
    session::{Facts, Handoff, Opening, RESOURCE},
};

static OFFICE: LazyLock<Policy> = LazyLock::new(|| {
    let name = PolicyName::parse("office").expect("a name");
    let toml = include_str!("../../fixtures/policies/office.toml");
    Policy::compile(&name, toml).expect("a policy of the tree")
});

pub(crate) fn run(data: &[u8]) {
    let Ok(value) = parse(data, &Limits::CALL) else {
        return;
    };
    let handoff = match Handoff::read(&value, RESOURCE) {
        Ok(handoff) => handoff,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let Value::Object(members) = handoff.value() else {
        panic!("a handoff is an object");
    };
    assert_eq!(members.len(), 4);
    let mut facts = Facts::open(&OFFICE, Opening::default()).expect("an opening");
    facts.record_handoff(&handoff);
    assert!(!facts.taint().is_empty(), "a handoff taints");
    for field in members.values() {
        let class = facts.origin(field).class;
        assert!(
            class > OriginClass::System,
            "a field of a handoff became {}",
            class.as_str()
        );
    }
}
