"""Runs a command under what a unit of systemd forbids, where no systemd runs: a stand-in for tests.

    confined.py UNIT [SETTING=VALUE…] -- COMMAND…

What it applies, as systemd does: SystemCallFilter, RestrictAddressFamilies, RestrictNamespaces and
MemoryDenyWriteExecute by seccomp; NoNewPrivileges; LimitNOFILE; and as root an empty CapabilityBoundingSet, a file
system that is read-only but for folders of CONFINED_WRITABLE, and the user "nobody", where that user can
run the command. SETTINGs go before the unit's.
"""

import ctypes
import os
import re
import resource
import struct
import subprocess
import sys

NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
X86_64 = 0xC000003E
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
EXEC, WRITE = 4, 2
NOBODY = 65534

LIBC = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVS, SECCOMP, BOUNDING_DROP = 38, 22, 24  # of prctl
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, NEWNS = 1, 32, 4096, 16384, 1 << 18, 0x00020000


def settings(unit):
    """Name -> its values, in order; an empty one forgets those before."""
    found = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit, re.M):
        found[name] = found.get(name, []) + [value] if value else []
    return found


def calls(group):
    """The system calls of "@group", or of a name alone."""
    if not group.startswith("@"):
        return {group}
    said = subprocess.run(["systemd-analyze", "syscall-filter", group], stdout=subprocess.PIPE, check=True, text=True).stdout
    names = [line.strip() for line in said.splitlines()[1:] if line.startswith("    ")]
    return set().union(*(calls(name) for name in names if not name.startswith("#")))


def allowed(filters):
    """What SystemCallFilter= lines come to together."""
    names = calls("@default")
    for line in filters:
        for word in line.lstrip("~").split():
            names = names - calls(word) if line.startswith("~") else names | calls(word)
    return names


class Filter:
    """A seccomp program: rows of struct sock_filter."""

    def __init__(self):
        self.rows = []
        self.load(4)
        self.unless(X86_64, 0, ALLOW)  # another architecture's numbers: none is run here
        self.load(0)

    def row(self, code, yes, no, value):
        self.rows.append(struct.pack("HBBI", code, yes, no, value))

    def load(self, offset):
        self.row(0x20, 0, 0, offset)

    def give(self, what):
        self.row(0x06, 0, 0, what)

    def unless(self, value, skip, what):
        self.row(0x15, skip + 1, 0, value)
        self.give(what)

    def when(self, call, what):
        self.row(0x15, 0, 1, call)
        self.give(what)

    def when_bits(self, call, argument, bits, what):
        """Where any of `bits` is set, or all of them if there are two."""
        need_all = isinstance(bits, tuple)
        tests = list(bits) if need_all else [bits]
        self.row(0x15, 0, 3 + len(tests), call)
        self.load(16 + 8 * argument)
        for left, bit in enumerate(tests):
            self.row(0x45, 0, len(tests) - left, bit)
        self.give(what)
        self.load(0)

    def install(self):
        program = b"".join(self.rows)
        code = ctypes.create_string_buffer(program, len(program))
        header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(self.rows), ctypes.addressof(code)))
        checked(LIBC.prctl(SECCOMP, 2, header, 0, 0), "seccomp")


def checked(status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what)


def filter_of(unit):
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", open(NUMBERS).read())}
    made = Filter()
    if unit.get("RestrictNamespaces") == ["yes"]:
        made.when(numbers["clone3"], ENOSYS)  # its flags are in memory; glibc goes on to clone
        made.when_bits(numbers["clone"], 0, NAMESPACES, EPERM)
        made.when(numbers["unshare"], EPERM)
        made.when(numbers["setns"], EPERM)
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        made.when_bits(numbers["mmap"], 2, (WRITE, EXEC), EPERM)
        made.when_bits(numbers["mprotect"], 2, EXEC, EPERM)
        made.when_bits(numbers["pkey_mprotect"], 2, EXEC, EPERM)
    if "RestrictAddressFamilies" in unit:
        families = [FAMILIES[word] for word in " ".join(unit["RestrictAddressFamilies"]).split()]
        made.row(0x15, 0, 2 + 2 * len(families) + 1, numbers["socket"])
        made.load(16)
        for family in families:
            made.when(family, ALLOW)
        made.give(0x00050000 | 97)  # EAFNOSUPPORT
    for name in sorted(allowed(unit.get("SystemCallFilter", []))):
        if name in numbers:
            made.when(numbers[name], ALLOW)
    made.give(EPERM)
    return made


def mount(source, target, kind, flags, data=None):
    encoded = [word.encode() if word else None for word in (source, target, kind)]
    checked(LIBC.mount(*encoded, ctypes.c_ulong(flags), data), "mount %s" % target)


def read_only(writable):
    """All but `writable`: in a mount namespace of this process's own."""
    checked(LIBC.unshare(NEWNS), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    for folder in writable:
        mount(folder, folder, None, MS_BIND)
    points = [line.split()[4] for line in open("/proc/self/mountinfo")]
    for point in points:
        point = point.encode().decode("unicode_escape")
        if point in writable or point.startswith(("/proc", "/dev", "/sys")):
            continue
        try:
            mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        except OSError:
            if point == "/":
                raise


def nobody_may(program):
    """Whether nobody can run it: in a home folder, or with libraries of one, nobody can."""
    try:
        return subprocess.run([program, "--help"], user=NOBODY, group=NOBODY, extra_groups=[], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0  # fmt: skip
    except PermissionError:
        return False


def main(words):
    split = words.index("--")
    unit = settings("\n".join([open(words[0]).read(), *words[1:split]]))
    program = filter_of(unit)
    if "LimitNOFILE" in unit:
        most = min(int(unit["LimitNOFILE"][-1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if os.geteuid() == 0:
        # Else root without a capability, whose files they may be.
        nobody = nobody_may(words[split + 1])
        try:
            read_only([folder for folder in os.environ.get("CONFINED_WRITABLE", "").split(":") if folder])
        except PermissionError:
            pass  # a container's root has no mounts of its own
        for capability in range(64):
            LIBC.prctl(BOUNDING_DROP, capability, 0, 0, 0)
        if nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    os.umask(int(unit.get("UMask", ["022"])[-1], 8))
    checked(LIBC.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    program.install()
    os.execv(words[split + 1], words[split + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
