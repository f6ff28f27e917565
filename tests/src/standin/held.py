"""Holds a canary in what the kernel keeps for a uid: its keyring, shared memory, a message queue.

Reads one JSON object: "name" and "canary". Ends, and takes everything away, when its input does.
"""
import ctypes
import json
import os
import select
import sys

order = json.loads(sys.stdin.readline())
name, canary = order["name"], order["canary"].encode()
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def checked(what, result):
    if result in (-1, ctypes.c_void_p(-1).value):
        error = ctypes.get_errno()
        raise OSError(error, what + ": " + os.strerror(error))
    return result


# @u, and everyone of this uid may read it (keyctl(2): KEYCTL_SETPERM).
ADD_KEY, KEYCTL = order["add_key"], order["keyctl"]
key = checked("add_key", libc.syscall(ADD_KEY, b"user", name.encode(), canary, len(canary), -4))
try:
    checked("keyctl", libc.syscall(KEYCTL, 5, key, 0x3F3F0000))
except PermissionError:
    pass  # a container's filter; then nobody reads the key, and its row's reach arm says so

segment = checked("shmget", libc.shmget(order["shm_key"], 4096, 0o1600))
at = checked("shmat", libc.shmat(segment, None, 0))
ctypes.memmove(at, canary, len(canary))

shared = "/dev/shm/" + name
with open(os.open(shared, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
    file.write(canary)

queue = checked("mq_open", libc.mq_open(b"/" + name.encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, None))
try:
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        # Whoever takes a message leaves the next one his own.
        libc.mq_send(queue, canary, len(canary), 0)
finally:
    libc.mq_unlink(b"/" + name.encode())
    os.unlink(shared)
    libc.shmctl(segment, 0, None)
    libc.syscall(KEYCTL, 9, key, -4)
