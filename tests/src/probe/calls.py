"""System calls as they come, each with the kernel's own answer.

Reads one JSON object from standard input: "calls", each with "step" (its name in the report),
"number", "arguments" and what is peculiar to it. Prints a line of JSON for each step, at once: a
call may be the last thing that this process does.

An argument is an object of one key: "number"; "bytes" (hexadecimal), handed over by address;
"buffer" (a name and a length), memory that is filled by the call; "address" of a buffer that has
been; "int", which stands in a buffer at an offset; "inherited", the highest descriptor above 2
that this process was started with and whose link in /proc/self/fd begins so, or which
is a terminal ("tty"), or -1; "result" of an earlier call; "words", 64 bits
each, which are arguments themselves.
"""
import binascii
import ctypes
import json
import os
import signal
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
buffers, results, kept = {}, [], []


def memory(content):
    held = ctypes.create_string_buffer(content, max(len(content), 1))
    kept.append(held)
    return held


def value(argument):
    (kind, given), = argument.items()
    if kind == "number":
        return given
    if kind == "bytes":
        return ctypes.addressof(memory(binascii.unhexlify(given)))
    if kind == "buffer":
        name, length = given
        buffers[name] = memory(bytes(length))
        return ctypes.addressof(buffers[name])
    if kind == "address":
        return ctypes.addressof(buffers[given])
    if kind == "int":
        name, at = given
        return struct.unpack_from("i", buffers[name].raw, at)[0]
    if kind == "result":
        return results[given]
    if kind == "inherited":
        return inherited(given)
    if kind == "words":
        words = [value(word) & 0xFFFFFFFFFFFFFFFF for word in given]
        return ctypes.addressof(memory(struct.pack("%dQ" % len(words), *words)))
    raise ValueError(kind)


def links():
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            yield number, os.readlink("/proc/self/fd/%d" % number)
        except OSError:
            continue


started_with = [link for link in links() if link[0] > 2]


def inherited(beginning):
    if beginning == "tty":
        found = [number for number, _ in started_with if os.isatty(number)]
    else:
        found = [number for number, link in started_with if link.startswith(beginning)]
    return found[-1] if found else -1


def say(**line):
    print(json.dumps(line), flush=True)


def child(to_do):
    """What the other side of a fork does, which must not say anything."""
    time.sleep(to_do / 1000)
    os._exit(0)


def make(call):
    arguments = [ctypes.c_long(value(argument)) for argument in call["arguments"]]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(call["number"]), *arguments)
    error = ctypes.get_errno() if result == -1 else 0
    if result == 0 and call.get("child_ms") is not None:
        child(call["child_ms"])
    results.append(result)
    if not call.get("quiet"):
        say(step=call["step"], errno=error)
    return error == 0


def run(call):
    done = make(call)
    for _ in range(call.get("again", 0)):
        heard(call)
        if not done or not make(call):
            return True
    heard(call)
    return done


def heard(call):
    for argument in call["arguments"]:
        if "buffer" in argument:
            filled = buffers[argument["buffer"][0]].raw.rstrip(b"\0")
            if len(filled) > 8:
                say(heard=filled.decode("latin-1"))
            found = call.get("finds")
            if found is not None and found.encode() in filled:
                say(step="found " + found, errno=0)


# Nothing here may wait for ever; the default action is the end.
signal.alarm(6)
for one in json.load(sys.stdin)["calls"]:
    if not run(one) and not one.get("go_on"):
        break
