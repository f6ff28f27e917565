import ctypes, errno, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    """A raw system call; integers and bytes."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def tried(what):
    try:
        what()
        return "reached"
    except OSError as error:
        return errno.errorcode[error.errno]


def mapped(size):
    """Writable memory for a struct of the kernel's."""
    return ctypes.create_string_buffer(size)
