"""A peer's decision on a call, timed in the peer's own process.

Reads one JSON object (the setting), then commands, one a line: `decide N` and `record N` answer with a
JSON list of N times in nanoseconds; the end of the input ends it. Uses the peers' documented functions only.
"""

import hashlib
import json
import sys
import time


def agentlock(setting):
    from agentlock import (
        AgentLockPermissions,
        AuthorizationGate,
        ContextSource,
        LineagePolicyConfig,
    )

    gate = AuthorizationGate()
    lineage = LineagePolicyConfig(enabled=True, param_lineage_enabled=True, decision="deny")
    for name in setting["tools"]:
        gate.register_tool(
            name,
            AgentLockPermissions(risk_level="high", allowed_roles=["user"], lineage_policy=lineage),
        )
    session = gate.create_session(user_id="ada", role="user")

    def write(source, text, tool=None):
        digest = hashlib.sha256(text.encode()).hexdigest()
        gate.notify_context_write(session.session_id, source, digest, tool_name=tool, content=text)

    write(ContextSource.USER_MESSAGE, setting["task"])

    def decide():
        gate.authorize(
            setting["tool"],
            user_id="ada",
            role="user",
            parameters=setting["arguments"],
            is_external=True,
        )

    return decide, lambda text: write(ContextSource.WEB_CONTENT, text, setting["reader"])


def verb_authority(setting):
    from verb_authority import GuardedToolRunner, Param, ProvenanceLedger, Registry, Tool

    registry = Registry()
    for name in setting["tools"]:
        parameters = [Param("to", "email"), Param("subject", max_len=200), Param("body", max_len=4000)]
        registry.add(Tool(name, parameters, fn=lambda to, subject, body: None, risk="write"))
    ledger = ProvenanceLedger()
    # It freezes the registry: what its own documentation tells to use.
    runner = GuardedToolRunner(registry, ledger=ledger)
    trusted = {name: setting["arguments"][name] for name in ("to", "subject")}
    use = {"name": setting["tool"], "input": setting["arguments"]}

    def decide():
        runner.run(use, trusted_args=trusted, confirm=lambda request: True)

    return decide, ledger.record_result


def page(number, words, size):
    """The page of this number: words of a list, chosen by a linear congruential generator, and now and then
    something that no other page has. The same in every contender."""
    state = number
    text = ""
    while len(text) < size:
        state = (state * 1103515245 + 12345) % 2147483648
        pick = state >> 8
        text += f"item-{number}-{pick} " if pick % 16 == 0 else words[pick % len(words)] + " "
    return text[:size]


def main():
    setting = json.loads(sys.stdin.readline())
    decide, record = {"agentlock": agentlock, "verb-authority": verb_authority}[setting["peer"]](setting)
    fresh = 0
    for line in sys.stdin:
        what, count = line.split()
        times = []
        for _ in range(int(count)):
            # Another page each time: what was seen before is not recorded again.
            fresh += 1
            text = page(fresh, setting["words"], setting["size"])
            begin = time.perf_counter_ns()
            if what == "decide":
                decide()
            else:
                record(text)
            times.append(time.perf_counter_ns() - begin)
        print(json.dumps(times), flush=True)


main()
