//! What streams only reads: its text is released before anybody has seen it whole.

use crate::policy::{Commit, Problem, Risk, Tool, error::Fault};

/// Whether a tool whose request has `stream = true` may.
pub(super) fn stream(tool: &Tool) -> Result<(), Fault> {
    if !tool.request.stream {
        return Ok(());
    }
    let branches = || tool.selector.iter().flat_map(|it| it.cases.values());
    let reads = tool.risk == Risk::Read && branches().all(|it| it.risk == Risk::Read);
    let classless = tool.classes.is_empty()
        && branches().all(|it| it.classes.is_empty())
        && tool.computed.bulk.is_empty()
        && tool.computed.external.is_empty();
    let rules = &tool.result;
    for (holds, why) in [
        (
            reads && tool.idempotent,
            "a lease is given to tools that read alone: `risk = \"read\"` in every branch, and \
             `idempotent = true`",
        ),
        (
            classless,
            "a lease is never given for what the write-gate may hold: leave every action class out",
        ),
        (
            tool.commit == Commit::AtOnce,
            "a lease is opened when it is asked for; leave `commit` out",
        ),
        (
            tool.verify.is_none() && tool.precondition.is_none(),
            "what only reads has no effect to look at; leave `verify` and `precondition` out",
        ),
        (
            rules.is_whole() && rules.fields.is_empty() && !rules.handoff,
            "nobody reads a stream on its way, so nothing of it is told apart or taken out: its `result` \
             is \"untrusted\" or \"trusted\"",
        ),
    ] {
        if !holds {
            return Err(Problem::Stream { why }.at(&["request", "stream"]));
        }
    }
    Ok(())
}
