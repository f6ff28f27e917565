//! What the operators' policies say now, beside what the ledger's calls were decided by.

use std::collections::{BTreeMap, BTreeSet};

use gate::{
    id::{PolicyName, ToolName},
    policy::{FieldLabel, Policy, Tool},
};
use toml::de::{DeTable, DeValue};

/// One policy, as its file has it.
#[derive(Clone, Debug)]
pub struct Declared {
    policy: Policy,
    /// Tools of whose results the file says nothing.
    unlabelled: BTreeSet<ToolName>,
}

impl Declared {
    /// `policy`, and the text that it was compiled of.
    pub fn new(policy: Policy, toml: &str) -> Self {
        let labelled = labelled(toml);
        let unlabelled = policy.tools().keys();
        let unlabelled = unlabelled.filter(|it| !labelled.contains(it.as_str()));
        Self {
            unlabelled: unlabelled.cloned().collect(),
            policy,
        }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its name.
    pub const fn name(&self) -> &PolicyName {
        self.policy.name()
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.policy.tools().get(&ToolName::parse(name).ok()?)
    }

    /// Whether the file says nothing of what this tool's results are.
    pub fn is_unlabelled(&self, tool: &ToolName) -> bool {
        self.unlabelled.contains(tool)
    }
}

/// Which tools of the text have a key `result`.
fn labelled(toml: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Ok(root) = DeTable::parse(toml) else {
        return found;
    };
    let Some(DeValue::Table(tools)) = root.get_ref().get("tools").map(|it| it.get_ref()) else {
        return found;
    };
    for (name, tool) in tools {
        if let DeValue::Table(tool) = tool.get_ref()
            && tool.contains_key("result")
        {
            found.insert(name.get_ref().clone().into_owned());
        }
    }
    found
}

/// What a policy says of the field at `pointer` of a tool's result: how it names the field, and whose words
/// that is.
pub(crate) fn field(tool: &Tool, pointer: &str) -> (String, FieldLabel) {
    // Which item of a list it was is not said here, and a policy names an item by its number hardly ever.
    let steps = pointer
        .split('/')
        .map(|it| if it == "*" { "0" } else { it });
    let one = steps.collect::<Vec<_>>().join("/");
    match tool.result.says_of(&one) {
        Some((named, label)) => (named.to_string(), label),
        None => (general(pointer), tool.result.rest()),
    }
}

/// A pointer with `*` for each number: where an item stands in a list is nobody's to count.
pub(crate) fn general(pointer: &str) -> String {
    let steps = pointer.split('/').map(|step| {
        let number = !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
        if number { "*" } else { step }
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Every policy that was given, by its name.
pub type Policies = BTreeMap<String, Declared>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_general_without_its_numbers() {
        assert_eq!(general("/2/id"), "/*/id");
        assert_eq!(general("/items/10/0/m-1"), "/items/*/*/m-1");
        assert_eq!(general(""), "");
    }

    #[test]
    fn a_tool_without_the_key_result_is_unlabelled_however_the_key_is_written() {
        let found = labelled(
            "[tools.a]\nresult = 'x'\n[tools.b]\nrisk = 'read'\n[tools.c.result]\nlabel = 'x'\n[tools.d]\n",
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "c"]);
        // Text that is no TOML labels nothing.
        assert!(labelled("[tools.a]\nresult = 'x'\n[tools.a]\n").is_empty());
    }
}
