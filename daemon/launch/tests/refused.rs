//! What the filters and namespaces refuse inside a real session, each beside its control.

#[cfg(test)]
mod support;

use support::{Start, can_run};

/// Runs Python inside and gives what it prints. `call(number, …)` is a raw system call that
/// answers the name of its errno or `ok`.
fn inside(script: &str) -> String {
    let prelude = "import ctypes, errno, os, socket, stat, sys\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        def call(*a):\n \
            r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])\n \
            return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]\n\
        def tried(f):\n \
            try:\n  \
                f()\n  \
                return 'ok'\n \
            except OSError as e:\n  \
                return errno.errorcode[e.errno]\n";
    let ended = Start::python(&format!("{prelude}{script}")).run();
    ended.text().to_owned()
}

#[test]
fn only_stream_and_seqpacket_unix_sockets_exist() {
    if !can_run() {
        return;
    }
    let script = "
for family in range(0, 46):
    for kind in range(0, 16):
        for flags in (0, 0o2000000):
            for name, number in (('socket', 41), ('socketpair', 53)):
                buf = (ctypes.c_int * 2)()
                r = call(number, family, kind | flags, 0, buf)
                if r == 'ok' or r != 'EPERM': print(name, family, kind, r)
";
    let mut wanted: Vec<&str> = Vec::new();
    for _flags in 0..2 {
        wanted.extend(["socket 1 1 ok", "socketpair 1 1 ok"]);
    }
    for _flags in 0..2 {
        wanted.extend(["socket 1 5 ok", "socketpair 1 5 ok"]);
    }
    assert_eq!(inside(script).lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn set_user_id_bits_are_refused_in_every_call_that_sets_them() {
    if !can_run() {
        return;
    }
    let script = "
os.chdir('/home/agent')
open('f', 'w').close()
os.mkdir('d')
fd = os.open('f', os.O_RDONLY)
A = -100
f = ctypes.c_char_p(b'f')
n = [0]
def new():
    n[0] += 1
    return ctypes.c_char_p(b'n%d' % n[0])
for bits in (0o4000, 0o2000, 0o6000, 0o4000 | 0o10000000000):
    m = bits | 0o755
    print(oct(bits),
        call(90, f, m), call(91, fd, m), call(268, A, f, m), call(452, A, f, m, 0),
        call(85, new(), m), call(2, new(), 0o102, m), call(257, A, new(), 0o102, m),
        call(2, ctypes.c_char_p(b'.'), 0o20200002, m), call(257, A, ctypes.c_char_p(b'.'), 0o20200002, m),
        call(83, new(), m), call(258, A, new(), m),
        call(133, new(), m | 0o100000, 0), call(259, A, new(), m | 0o100000, 0))
m = 0o755
print('control',
    call(90, f, m), call(91, fd, m), call(268, A, f, m), call(452, A, f, m, 0),
    call(85, new(), m), call(2, new(), 0o102, m), call(257, A, new(), 0o102, m),
    call(2, ctypes.c_char_p(b'.'), 0o20200002, m), call(257, A, ctypes.c_char_p(b'.'), 0o20200002, m),
    call(83, new(), m), call(258, A, new(), m),
    call(133, new(), m | 0o100000, 0), call(259, A, new(), m | 0o100000, 0))
print('openat2', call(437, A, f, ctypes.create_string_buffer(24), 24))
print('left', [x for x in os.listdir('.') if os.stat(x).st_mode & 0o6000])
";
    let text = inside(script);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[..4] {
        assert!(
            line.split(' ').skip(1).all(|answer| answer == "EPERM"),
            "{text}"
        );
    }
    assert!(
        lines[4].split(' ').skip(1).all(|answer| answer == "ok"),
        "{text}"
    );
    assert_eq!(&lines[5..], ["openat2 ENOSYS", "left []"]);
}

#[test]
fn no_namespace_mount_or_handle_is_made() {
    if !can_run() {
        return;
    }
    let script = "
p = ctypes.c_char_p(b'/tmp')
for flag in (0x20000, 0x80, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if call(272, flag) != 'EPERM': print('unshare', hex(flag))
    if flag != 0x80 and call(56, flag | 17, 0, 0, 0, 0) != 'EPERM': print('clone', hex(flag))
print(call(435, ctypes.create_string_buffer(88), 88))
for number in (161, 308, 165, 166, 155, 428, 429, 430, 431, 432, 433, 442, 303, 304):
    r = call(number, p, p, p, 0, 0)
    if r != 'EPERM': print(number, r)
print(tried(lambda: os.fork() or os._exit(0)))
";
    assert_eq!(inside(script), "ENOSYS\nok");
}

#[test]
fn the_kernels_other_doors_are_closed() {
    if !can_run() {
        return;
    }
    // By number (syscall_64.tbl): io_uring, ptrace and its like, keys, bpf, userfaultfd, perf,
    // modules, kexec, reboot, swap, clocks, fanotify, quota, syslog, ioperm, iopl, acct, vmsplice.
    let script = "
for number in (425, 426, 427, 101, 310, 311, 440, 448, 438, 312, 298, 323, 321, 248, 249, 250, 447,
               175, 313, 176, 246, 320, 169, 167, 168, 227, 159, 305, 164, 300, 301, 179, 443, 103,
               173, 172, 163, 278, 154, 170, 171, 153, 237, 256, 279, 134, 136, 139, 156, 180, 212):
    r = call(number, 0, 0, 0, 0, 0)
    if r != 'EPERM': print(number, r)
for number in (451, 457, 458, 459, 460, 461, 463, 464, 467, 468, 469, 470, 500, 512, 547, 1000, 0x40000000, 0x40000001, 0x40000029):
    r = call(number, 0, 0, 0, 0, 0)
    if r != 'ENOSYS': print(number, r)
print(call(135, 0xffffffff), call(135, 0x40000), call(135, 8))
print(call(157, 35, 8, 0, 0, 0), call(157, 15, ctypes.c_char_p(b'name'), 0, 0, 0))
print(call(317, 1, 8, 0), call(317, 2, 0, ctypes.pointer(ctypes.c_int(0x7fc00000))))
";
    assert_eq!(inside(script), "ok EPERM EPERM\nEPERM ok\nEPERM ok");
}

#[test]
fn another_architectures_calls_kill() {
    if !can_run() {
        return;
    }
    // int 0x80 with eax = 20 (getpid of i386), in a page of our own.
    let script = "
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
pid = os.fork()
if pid == 0:
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    os._exit(0)
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))
";
    assert_eq!(inside(script), "31");
}

#[test]
fn a_terminal_is_not_typed_into() {
    if !can_run() {
        return;
    }
    let script = "
m, s = os.openpty()
c = ctypes.c_char_p(b'x')
print([call(16, s, r, c) for r in (0x5412, 0x541c, 0x541d, 0x5423, 0x5412 | 1 << 32)], call(16, s, 0x5413, ctypes.create_string_buffer(8)))
";
    assert_eq!(
        inside(script),
        "['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'] ok"
    );
}

#[test]
fn a_file_is_not_given_another_project_or_flags() {
    if !can_run() {
        return;
    }
    // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR; FS_IOC_GETFLAGS and FS_IOC_FSGETXATTR are answered.
    let script = "
fd = os.open('/tmp/f', os.O_CREAT | os.O_RDWR)
b = ctypes.create_string_buffer(64)
print([call(16, fd, r, b) for r in (0x40086602, 0x401c5820, 0x401c5820 | 1 << 32)])
print([call(16, fd, r, b) for r in (0x80086601, 0x801c581f)])
";
    assert_eq!(inside(script), "['EPERM', 'EPERM', 'EPERM']\n['ok', 'ok']");
}

#[test]
fn no_program_is_attached_to_a_socket() {
    if !can_run() {
        return;
    }
    // SO_ATTACH_FILTER with `return 0`, SO_ATTACH_BPF and both for SO_REUSEPORT; SO_RCVBUF.
    let script = "
import struct
a, b = socket.socketpair()
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))
program = struct.pack('HxxxxxxP', 1, ctypes.addressof(code))
print([tried(lambda: a.setsockopt(1, o, program)) for o in (26, 50, 51, 52)])
print(tried(lambda: a.setsockopt(1, 8, 4096)))
";
    assert_eq!(inside(script), "['EPERM', 'EPERM', 'EPERM', 'EPERM']\nok");
}

#[test]
fn no_core_is_dumped_and_the_limit_stays() {
    if !can_run() {
        return;
    }
    let script = "
import resource
print(resource.getrlimit(resource.RLIMIT_CORE))
print(call(302, 0, 4, ctypes.create_string_buffer(16), 0))
print(call(160, 4, ctypes.create_string_buffer(16)))
print(tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))))
os.chdir('/tmp')
pid = os.fork()
if pid == 0:
    os.abort()
print(os.WCOREDUMP(os.waitpid(pid, 0)[1]), os.listdir('.'))
";
    assert_eq!(inside(script), "(1, 1)\nEPERM\nEPERM\nok\nFalse []");
}

#[test]
fn nothing_outside_is_signalled_or_seen() {
    if !can_run() {
        return;
    }
    let outside = std::process::id();
    let script = format!(
        "
print(tried(lambda: os.kill({outside}, 0)), call(434, {outside}, 0))
print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[-1] < 10)
"
    );
    assert_eq!(inside(&script), "ESRCH ESRCH\nTrue");
}

#[test]
fn a_local_network_is_not_there_either() {
    if !can_run() {
        return;
    }
    assert_eq!(
        inside("print(open('/proc/net/dev').read().count(':'))"),
        "1"
    );
    let text = inside("print(tried(lambda: socket.create_connection(('127.0.0.1', 1))))");
    assert_eq!(text, "EPERM");
}

#[test]
fn python_has_threads_processes_and_sockets_of_its_own() {
    if !can_run() {
        return;
    }
    let script = "
import asyncio, multiprocessing, subprocess, threading, pwd, getpass, time
def square(x): return x * x
seen = []
ts = [threading.Thread(target=seen.append, args=(i,)) for i in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(seen))
with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(square, range(4)))
print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())
async def main():
    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
    print((await p.communicate(b'async'))[0].decode())
asyncio.run(main())
print(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_dir, os.path.expanduser('~'))
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own.sock'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('/tmp/own.sock'); print('own socket')
";
    assert_eq!(
        inside(script),
        "[0, 1, 2, 3, 4, 5, 6, 7]\n[0, 1, 4, 9]\nchild\nasync\n\
         agent /home/agent /home/agent\nown socket"
    );
}

#[test]
fn python_spawns_and_forkserves() {
    if !can_run() {
        return;
    }
    for method in ["spawn", "forkserver"] {
        let script = format!(
            "cd ~ && cat > m.py <<'E'\nimport multiprocessing as m\ndef f(x): return x + 1\n\
             if __name__ == '__main__':\n m.set_start_method('{method}')\n \
             print(m.Pool(2).map(f, [1, 2, 3]))\nE\n/usr/bin/python3 m.py"
        );
        assert_eq!(Start::sh(&script).run().text(), "[2, 3, 4]", "{method}");
    }
}
