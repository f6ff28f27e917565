"""What a peer's scanner says, asked in the peer's own process through its documented functions.

Reads one JSON file: `files`, each scanned by itself, and `corpus`, whose schemas become the peer's policies and whose
calls its decisions. Answers with one JSON object.
"""

import json
import sys

from verb_authority import Param, Registry, Risk, Tool, build_policy, dispatch
from verb_authority_scan import SchemaError, load_json_path, scan_documents


def scanned(path):
    try:
        report = scan_documents([load_json_path(path)])
    except (SchemaError, ValueError) as error:
        return {"refused": str(error)}
    return {
        "arguments": [
            {
                "tool": tool["name"],
                "argument": argument["name"],
                "authority": argument["policy"],
                "confidence": argument["confidence"],
                "type": argument["type"],
            }
            for tool in report["tools"]
            for argument in tool["arguments"]
        ]
    }


def judged(case):
    raw = case["tool"]
    registry = Registry()
    registry.add(Tool(raw["name"], [Param(**it) for it in raw["params"]], risk=Risk(case["expected"]["risk"])))
    policies = build_policy(registry)
    decisions = {}
    for call in case.get("calls", []):
        use = {"name": raw["name"], "input": call["input"]}
        decision = dispatch(registry, policies, use, trusted_args=call.get("trusted_args", {}))
        said = "block" if not decision.allow else "confirm" if decision.needs_confirm else "allow"
        decisions[call["id"]] = said
    authority = {name: policy.value for name, policy in policies.policy[raw["name"]].items()}
    return {"authority": authority, "decisions": decisions}


with open(sys.argv[1], encoding="utf-8") as file:
    asked = json.load(file)
answer = {
    "files": {path: scanned(path) for path in asked["files"]},
    "corpus": {case["id"]: judged(case) for case in asked["corpus"]["cases"]},
}
json.dump(answer, sys.stdout)
