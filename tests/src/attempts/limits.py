"""Takes of what the kernel grants to a uid, or tries whether there is some left.

Arguments: what ("processes", "queues", "pipes", "signals", "watches"), how many, the uid to become
where that is allowed, and either two files, one to make when all is taken and one to wait for; or
none: then one more is tried, under a limit of one's own, and "free" or "taken" is said.
"""
import ctypes
import fcntl
import os
import resource
import signal
import sys
import time

what, count, uid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
try:
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
except PermissionError:
    pass
kept, children = [], []
# The most of those limits that are of the process that asks, and are compared with what its uid
# has (getrlimit(2)).
OWN = {"processes": (resource.RLIMIT_NPROC, 150), "queues": (resource.RLIMIT_MSGQUEUE, 400_000),
       "signals": (resource.RLIMIT_SIGPENDING, 60)}
# What is taken is kept so long at most: an emulated machine starts the other holder slowly.
SECONDS = 45


def processes():
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        time.sleep(SECONDS)
        os._exit(0)
    children.append(pid)
    return True


def queues():
    path = b"/custody-bypass-%d-%d" % (os.getpid(), len(kept))
    made = libc.mq_open(path, os.O_CREAT | os.O_RDWR, 0o600, None)
    if made == -1:
        return False
    libc.mq_unlink(path)
    kept.append(made)
    return True


def pipes():
    ends = os.pipe()
    kept.append(ends)
    # Above pipe-user-pages-soft a new pipe has two pages in place of sixteen (pipe(7)).
    if fcntl.fcntl(ends[1], fcntl.F_GETPIPE_SZ) < 65536:
        return False
    if count > 1:
        try:
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 1 << 20)
        except OSError:
            # So many pages are not left: the rest goes by small pipes.
            return True
    return True


def signals():
    # A timer keeps a signal ready (timer_create(2)): CLOCK_MONOTONIC, SIGEV_SIGNAL by default.
    timer = ctypes.c_int()
    return libc.syscall(222, 1, None, ctypes.byref(timer)) == 0


def watches():
    made = libc.inotify_init1(0)
    kept.append(made)
    return made != -1


one = {"processes": processes, "queues": queues, "pipes": pipes, "signals": signals,
       "watches": watches}[what]
try:
    if len(sys.argv) == 4:
        if what in OWN:
            limit, most = OWN[what]
            resource.setrlimit(limit, (most, most))
        free = one()
        print("free" if free else "taken")
    else:
        door, go = sys.argv[4:]
        number = 0
        while number < count and one():
            number += 1
        print("took %d" % number, flush=True)
        open(door, "w").close()
        end = time.monotonic() + SECONDS
        while not os.path.exists(go) and time.monotonic() < end:
            time.sleep(0.01)
finally:
    # Where a layer refuses the door, too: the next arm counts what is left over.
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
