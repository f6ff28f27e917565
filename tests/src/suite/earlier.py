"""What a uid leaves in the kernel: a key, shared memory or a message queue with a canary in it.

Reads one JSON object from standard input: "uid", "kind", "name", "canary", "shm_key", the numbers
of add_key and keyctl, and whether it is to be taken away again ("clear").
"""
import ctypes
import json
import os
import sys

order = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
os.setgroups([])
os.setresgid(*[order["uid"]] * 3)
os.setresuid(*[order["uid"]] * 3)
name, canary = order["name"].encode(), order["canary"].encode()
# keyctl(2): KEY_SPEC_USER_KEYRING, KEYCTL_SEARCH, KEYCTL_UNLINK; shmget(2): IPC_CREAT.
USER_KEYRING, SEARCH, UNLINK, CREATE = -4, 10, 9, 0o1000


def check(result):
    if result == -1:
        sys.exit(os.strerror(ctypes.get_errno()))
    return result


def key():
    if order["clear"]:
        found = libc.syscall(order["keyctl"], SEARCH, USER_KEYRING, b"user", name, 0)
        check(libc.syscall(order["keyctl"], UNLINK, check(found), USER_KEYRING))
    else:
        check(libc.syscall(order["add_key"], b"user", name, canary, len(canary), USER_KEYRING))


def shared_memory():
    number = check(libc.shmget(order["shm_key"], 256, 0o600 | CREATE))
    if order["clear"]:
        check(libc.shmctl(number, 0, None))
    else:
        at = libc.shmat(number, None, 0)
        ctypes.memmove(at, canary, len(canary))


def queue():
    path = b"/" + name
    if order["clear"]:
        check(libc.mq_unlink(path))
    else:
        made = libc.mq_open(path, os.O_CREAT | os.O_RDWR, 0o600, None)
        check(libc.mq_send(check(made), canary, len(canary), 0))


{"key": key, "queue": queue, "shared_memory": shared_memory}[order["kind"]]()
