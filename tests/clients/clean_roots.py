"""What docs/clients.md has people type, a language at a time, in a fresh Debian: whether the page leaves a step out.

    clean_roots.py [LANGUAGE…] [--keep FOLDER]

A root is as tests/deploy/first_minute.py makes it, and has the tree as git keeps it, HEAD, with nothing built. It gets
Debian's packages that the page names. A toolchain that Debian's release has too old is lent by this machine, to be
read.
Then three steps, in one shell: the language's part of the page has for each a block of what is typed, in this order.

    build    in the tree's root
    first    in a folder beside the tree, which has the first program and nothing else
    digits   in the tree's root

The server, KILN_KILND, runs outside, on loopback, which the root shares. `./dev clean-clients` calls it.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Callable, List, NamedTuple, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "deploy"))

import digits
import first_minute
import languages

STEPS = ("build", "first", "digits")
ADDRESS = "localhost:7437"  # the page's
# Packages come from where this machine's user has them come from.
PASSED = re.compile(r"PIP_(EXTRA_)?INDEX_URL|(?i:npm_config_registry)|CARGO_(NET|HTTP|REGISTRIES)_\w+|"
                    r"GO(PROXY|SUMDB|NOSUMDB|PRIVATE|FLAGS)|MAVEN_(OPTS|ARGS)")  # fmt: skip
SETTINGS = (".npmrc", ".config/pip/pip.conf", ".config/go/env", ".cargo/config.toml", ".m2/settings.xml")
# Debian as people have it: with what it has mended since the release. And it trusts whom this machine trusts.
BEFORE = r"""
cp -r /first/home/. "$HOME"
echo "deb http://deb.debian.org/debian-security bookworm-security main" >>/etc/apt/sources.list
mkdir -p /usr/local/share/ca-certificates
if [ -e /first/certificates ]; then
  awk '/BEGIN CERT/ {n++} n {print > sprintf("/usr/local/share/ca-certificates/%03d.crt", n)}' /first/certificates
fi
"""


class Lent(NamedTuple):
    what: str  # with its version
    paths: List[Tuple[str, str]]  # (here, there)
    path: str  # of its programs
    links: Tuple[Tuple[str, str], ...] = ()  # (what it says, there)


class Recipe(NamedTuple):
    packages: str  # Debian's, before the page's first step
    first: str  # what the first program's file is called
    lent: Callable[[], Lent] = lambda: Lent("", [], "")
    first_in: str = "/first/first"


def said(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def go():
    program = languages.LANGUAGES["go"].toolchain()
    version = re.search(r"go([\d.]+)", said(program, "version")).group(1)
    return Lent("Go " + version, [(said(program, "env", "GOROOT"), "/opt/go")], "/opt/go/bin")


def node():
    program = languages.LANGUAGES["typescript"].toolchain()
    npm = pathlib.Path(languages.find("npm")).resolve().parent.parent
    there = "/opt/node/lib/node_modules/npm"
    links = tuple(("%s/bin/%s-cli.js" % (there, name), "/opt/node/bin/" + name) for name in ("npm", "npx"))
    paths = [(said(program, "-p", "process.execPath"), "/opt/node/bin/node"), (str(npm), there)]
    return Lent("Node " + said(program, "--version").lstrip("v"), paths, "/opt/node/bin", links)


def rust():
    program = pathlib.Path(languages.LANGUAGES["rust"].toolchain())
    version = said(str(program), "--version").split()[1]
    sysroot = said(str(program.with_name("rustc")), "--print", "sysroot")
    return Lent("Rust " + version, [(sysroot, "/opt/rust")], "/opt/rust/bin")


RECIPES = {
    "python": Recipe("ca-certificates python3-venv", "first.py"),
    "go": Recipe("ca-certificates protobuf-compiler", "main.go", go),
    "typescript": Recipe("ca-certificates protobuf-compiler", "first.mjs", node),
    "rust": Recipe("ca-certificates gcc libc6-dev", "src/main.rs", rust),
    "java": Recipe("ca-certificates default-jdk-headless maven", "First.java"),
    # The first program stands in the tree: client/cpp/examples/first.cc.
    "cpp": Recipe("ca-certificates", "first.cc", first_in="/first/kiln"),
}
HEADINGS = {"python": "Python", "go": "Go", "typescript": "TypeScript", "rust": "Rust", "java": "Java", "cpp": "C++"}


class Page(NamedTuple):
    """What the page has of a language."""

    typed: List[str]  # a text of shell for each of STEPS
    program: str
    prints: str


def page(language):
    heading = re.escape(HEADINGS[language])
    part = re.search(r"^## %s\n(.*?)^## " % heading, digits.PAGE.read_text(), re.M | re.S).group(1)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", part[part.index("\nA first program"):], re.M | re.S)
    # What it prints is the first text, and stands behind the program.
    its = next(number for number, (kind, _) in enumerate(blocks) if kind == "text")
    return Page(re.findall(r"^```sh\n(.*?)^```", part, re.M | re.S), blocks[its - 1][1], blocks[its][1])


def shell(recipe, lent, steps, address):
    """One text: what the root has before the page is read, then its steps, each timed."""
    folders = dict(zip(STEPS, ("/first/kiln", recipe.first_in, "/first/kiln")))
    before = ["set -e", "export KILN_ADDR=" + address, BEFORE]
    before += ["ln -s %s %s" % link for link in lent.links]
    if lent.path:
        before.append("export PATH=%s:$PATH" % lent.path)
    wanted = {"install": "apt-get update -q\napt-get install -y -q --no-install-recommends " + recipe.packages}
    for name, typed in zip(STEPS, steps):
        wanted[name] = "cd %s\n%s" % (folders[name], typed.replace(ADDRESS, address))
    return "\n".join([*before, *first_minute.timed(wanted)])


def accuracy(printed):
    """Of the last line of the digits' program, which is above the bound; else SystemExit."""
    found = re.search(r"^read (\d+) of 360: ([\d.]+)$", re.sub(r"\x1b\[[\d;]*m", "", printed), re.M)
    if found is None or float(found.group(2)) <= digits.ACCURACY:
        raise SystemExit("the digits are not read: more than %s is wanted\n%s" % (digits.ACCURACY, printed[-2000:]))
    return float(found.group(2))


def tried(language, root, address):
    """A row of the table, or SystemExit with what was said."""
    recipe, its = RECIPES[language], page(language)
    lent = recipe.lent()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for room in ("kiln", "home", "first"):
            (folder / room).mkdir()
        words = ["git", "-C", str(languages.ROOT), "archive", "HEAD"]
        archive = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", str(folder / "kiln")], input=archive, check=True)
        for setting in SETTINGS:
            if (pathlib.Path.home() / setting).exists():
                (folder / "home" / setting).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(pathlib.Path.home() / setting, folder / "home" / setting)
        program = folder / "first" / recipe.first
        program.parent.mkdir(exist_ok=True)
        program.write_text(its.program.replace(ADDRESS, address))
        passed = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
        status, printed = first_minute.inside(root, folder, shell(recipe, lent, its.typed, address), lent.paths,
                                              NODE_EXTRA_CA_CERTS="/first/certificates", **passed)  # fmt: skip
    rows = {name: (seconds, text) for seconds, name, text in first_minute.took(printed)}
    if status != 0:
        failed = next(name for name in ("install", *STEPS, "?") if name not in rows)
        raise SystemExit("%s: step %s: status %d\n%s" % (language, failed, status, printed[-6000:]))
    if its.prints not in rows["first"][1]:
        raise SystemExit("%s: the first program does not print what the page says\n%s" % (language, rows["first"][1]))
    there = [lent.what] if lent.what else []
    columns = [HEADINGS[language], ", ".join(there + recipe.packages.split())]
    columns += ["%.1f s" % rows[name][0] for name in ("install", *STEPS)]
    return "| %s | %.4f |" % (" | ".join(columns), accuracy(rows["digits"][1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", nargs="*", help="one of %s; without, all" % ", ".join(RECIPES))
    parser.add_argument("--keep", type=pathlib.Path, required=True, help="where roots are kept for the next time")
    words = parser.parse_args()
    unknown = set(words.language) - set(RECIPES)
    if unknown:
        parser.error("no such language: %s" % ", ".join(sorted(unknown)))
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise SystemExit("clean_roots: it needs root, and debootstrap")
    sys.path.insert(0, str(languages.ROOT / "tests" / "python"))
    import support

    words.keep.mkdir(parents=True, exist_ok=True)
    root, failed = first_minute.root_of("bookworm", words.keep.resolve()), []
    server = support.Server("--cpu_devices=2")
    try:
        print("| language | what was there | install | %s | accuracy |\n%s|" % (" | ".join(STEPS), "|---" * 7))
        for language in words.language or RECIPES:
            try:
                print(tried(language, root, server.address), flush=True)
            except SystemExit as why:
                failed.append(language)
                print(why, file=sys.stderr, flush=True)
    finally:
        server.stop()
    if failed:
        raise SystemExit("clean_roots: not as the page says: " + ", ".join(failed))


if __name__ == "__main__":
    main()
