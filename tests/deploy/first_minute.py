"""The first minute: what docs/deployment.md says under "Installed in a minute", done in fresh roots, each line timed.

    first_minute.py PACKAGES… [--root bookworm] [--keep FOLDER]

PACKAGES are folders of `./dev package` and `./dev wheel`. A root is what debootstrap makes of a distribution's smallest
variant, from its mirror; each way to install has it fresh, under an overlay, and processes of it end with it. Root only.
Status 1 if a way takes more than a minute. `./dev first-minute` calls it; tests/clients/clean_roots.py does other pages'
words in the same roots.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "deployment.md"
MOST = 60  # seconds of a first minute
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class Distribution(NamedTuple):
    mirror: str
    components: str
    keyring: str  # debootstrap's own, if empty
    script: str


DISTRIBUTIONS = {
    "bookworm": Distribution("http://deb.debian.org/debian", "main", "", "bookworm"),
    # Debian has no keys of Ubuntu's: KILN_UBUNTU_KEYRING is where somebody put them.
    "noble": Distribution("https://archive.ubuntu.com/ubuntu", "main,universe", os.environ.get("KILN_UBUNTU_KEYRING", ""), "jammy"),
}

# Before the clock starts, what a small root lacks and every machine of somebody who uses Python has.
BEFORE = {"Python": ["apt-get update -q", "apt-get install -y -q --no-install-recommends python3-venv"]}

# As pid 1 of a namespace: when it ends, so does all that it started.
INSIDE = r"""
set -eu
mount -t tmpfs tmpfs "$WORK"
mkdir "$WORK/upper" "$WORK/work" "$WORK/root"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work" "$WORK/root"
cd "$WORK/root"
mount -t proc proc proc
mount --rbind /dev dev
mkdir -p first etc/ssl/certs
echo "127.0.0.1 localhost" >etc/hosts
cp -rL "$PACKAGES"/. first/
for file in /etc/resolv.conf CERTIFICATES; do
  if [ -e "$file" ]; then cat "$file" >".$file"; fi
done
# A second one, as a package may write the first anew.
if [ -e CERTIFICATES ]; then cp -L CERTIFICATES first/certificates; fi
# What is lent of this machine: it can be read there, and no more.
echo "$LENT" | while read -r from to; do
  [ -n "$to" ] || continue
  if [ -d "$from" ]; then mkdir -p ".$to"; else mkdir -p ".${to%/*}" && touch ".$to"; fi
  mount --bind -o ro "$from" ".$to"
done
exec chroot . /bin/bash -c "$SCRIPT"
""".replace("CERTIFICATES", CERTIFICATES)


def ways():
    """Heading -> the lines of its block."""
    part = re.search(r"^## Installed in a minute$(.*?)^## ", PAGE.read_text(), re.S | re.M).group(1)
    blocks = re.findall(r"^### (.*?)$.*?^```sh\n(.*?)^```", part, re.S | re.M)
    return {heading: block.strip().splitlines() for heading, block in blocks}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def timed(steps):
    """Runs {name: lines of shell} in one shell that ends at the first failure, and after each says how long it took."""
    for name, lines in steps.items():
        yield from ("begun=$EPOCHREALTIME", lines, "ended=$EPOCHREALTIME",
                    "printf '\\n=%%d %%s\\n' $(( ${ended/./} - ${begun/./} )) %s" % shlex.quote(name))  # fmt: skip


def took(said):
    """[(seconds, name, what it printed)] of those steps that came to their end."""
    rows, begun = [], 0
    for match in re.finditer(r"^=(\d+) (.*)\n", said, re.M):
        rows.append((int(match.group(1)) / 1e6, match.group(2), said[begun:match.start()]))
        begun = match.end()
    return rows


def script(before, lines):
    """The network is this machine's: a port of its own."""
    port = free_port()
    rows = ["set -e", "cd /first", "export KILN_GPUS=none KILN_LISTEN=127.0.0.1:%d KILN_ADDR=localhost:%d" % (port, port)]
    rows += ["%s >/dev/null 2>&1 </dev/null" % line for line in before]
    return "\n".join([*rows, *timed({line: line for line in lines})])


def root_of(name, folder):
    """A fresh root of this distribution."""
    made = folder / name
    if not made.exists():
        its = DISTRIBUTIONS[name]
        print("first_minute: making a root of %s" % name, file=sys.stderr)
        keys = ["--keyring=" + its.keyring] if its.keyring else []
        # Beside it, so that what was broken off is not taken for a root.
        part = folder / (name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--force-check-gpg", "--components=" + its.components, *keys, name,
                        str(part), its.mirror, "/usr/share/debootstrap/scripts/" + its.script], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        part.rename(made)
    return made


def inside(root, folder, shell, lent=(), **more):
    """(status, what it said) of this text of Bash in a fresh root, where /first has what is in the folder, and each
    (path, path there) of `lent` can be read. `more` is of its environment."""
    with tempfile.TemporaryDirectory() as work:
        environment = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        environment.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", LANG="C.UTF-8", DEBIAN_FRONTEND="noninteractive",
                           PIP_CERT="/first/certificates", PIP_DISABLE_PIP_VERSION_CHECK="1", WORK=work,
                           LENT="\n".join("%s %s" % pair for pair in lent),
                           LOWER=str(root), PACKAGES=str(folder), SCRIPT=shell, **more)  # fmt: skip
        ran = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)  # fmt: skip
    return ran.returncode, ran.stdout.decode(errors="replace")


def once(root, packages, before, lines):
    """[(seconds, line)] of one way, or SystemExit with what it said."""
    status, said = inside(root, packages, script(before, lines))
    if status != 0:
        raise SystemExit("first_minute: status %d\n%s" % (status, said))
    return [(seconds, line) for seconds, line, _ in took(said)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=pathlib.Path)
    parser.add_argument("--root", action="append", choices=sorted(DISTRIBUTIONS), help="of which distribution (bookworm)")
    parser.add_argument("--keep", type=pathlib.Path, help="where roots are kept for the next time")
    words = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise SystemExit("first_minute: it needs root, and debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        packages = pathlib.Path(folder, "packages")
        packages.mkdir()
        for file in [file for given in words.packages for file in given.iterdir()]:
            (packages / file.name).symlink_to(file.resolve())
        keep = words.keep or pathlib.Path(folder, "roots")
        keep.mkdir(parents=True, exist_ok=True)
        slow = []
        for name in words.root or ["bookworm"]:
            root = root_of(name, keep)
            for way, lines in ways().items():
                rows = once(root, packages, BEFORE.get(way, []), lines)
                whole = sum(seconds for seconds, _ in rows)
                print("%s, %s: %.1f s" % (name, way, whole))
                if whole > MOST:
                    slow.append("%s, %s" % (name, way))
                for seconds, line in rows:
                    print("  %6.1f s  %s" % (seconds, line), flush=True)
        if slow:
            raise SystemExit("more than %d s: %s" % (MOST, "; ".join(slow)))


if __name__ == "__main__":
    main()
