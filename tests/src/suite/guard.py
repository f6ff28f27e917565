"""A guard in one process with the code that it guards, and the code beside it that walks past.

Reads one JSON object from standard input. "target" says what the guarded callable does:
"in_process" performs the effect itself, with a credential in this process; "client" asks over the
session's socket. "way" says how it is used: "front_door" calls the guard; "extract" takes the
callable out of the guard's closure. The two walk the same code.
"""
import http.client
import json
import socket
import sys


def in_process(order):
    host, port = order["witness"].rsplit(":", 1)

    def perform(to, text):
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        body = json.dumps({"to": to, "text": text})
        connection.request("POST", "/v1/messages", body,
                           {"authorization": "Bearer " + order["token"]})
        return connection.getresponse().read().decode()

    return perform


def client(order):
    def perform(to, text):
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(20)
        stream.connect(order["socket"])
        lines = stream.makefile("rw")

        def say(message, answered=True):
            lines.write(json.dumps(message) + "\n")
            lines.flush()
            return lines.readline() if answered else ""

        say({"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": {"name": "guard", "version": "1"}}})
        say({"jsonrpc": "2.0", "method": "notifications/initialized"}, answered=False)
        return say({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                    "params": {"name": "send_message",
                               "arguments": {"to": to, "text": text}}})

    return perform


def guard(perform, allowed):
    """What a wrapper in the agent's process amounts to."""

    def guarded(to, text):
        if to not in allowed:
            raise PermissionError(to + " is not an allowed recipient")
        return perform(to, text)

    return guarded


def main():
    order = json.load(sys.stdin)
    perform = {"in_process": in_process, "client": client}[order["target"]](order)
    guarded = guard(perform, {order["recipient"]})
    del perform
    if order["way"] == "front_door":
        print(guarded(order["recipient"], order["nonce"]))
        return
    try:
        guarded("attacker@example.net", order["nonce"])
    except PermissionError as refusal:
        print("the guard:", refusal)
    extracted = [cell.cell_contents for cell in guarded.__closure__
                 if callable(cell.cell_contents)]
    print(extracted[0]("attacker@example.net", order["nonce"]))


main()
