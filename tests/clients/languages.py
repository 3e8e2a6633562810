"""The clients under test: one row a language. What a row says is how its adapter is built and started.

    python tests/clients/languages.py [LANGUAGE]     # which there are; builds one
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest
from typing import Callable, List, NamedTuple, Optional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GO = ROOT / "client" / "go"
TYPESCRIPT = ROOT / "client" / "ts"
RUST = ROOT / "client" / "rust"
JAVA = ROOT / "client" / "java"


class Language(NamedTuple):
    name: str
    # The program that builds and runs it, or None where it is not on this machine.
    toolchain: Callable[[], Optional[str]]
    # Called once with that program, and gives the adapter's command line.
    command: Callable[[str], List[str]]
    # The program that learns the digits with it: short enough to be copied.
    digits: str
    # The same as somebody who minds its speed builds and starts it, where that differs.
    optimized: Optional[Callable[[str], List[str]]] = None

    def quick(self, program):
        return (self.optimized or self.command)(program)


def find(name, *places):
    return shutil.which(name) or next((place for place in places if os.access(place, os.X_OK)), None)


def python(program):
    return [program, str(HERE / "adapters" / "python_adapter.py")]


def go(program):
    """Fetches the modules where they are not there yet, generates the messages, and builds."""
    words_in_go(program, "mod", "download", why="the modules of client/go cannot be had")
    words_in_go(program, "-C", "tools", "mod", "download", why="the modules of client/go/tools cannot be had")
    made = ROOT / "out" / "clients" / "go_adapter"
    subprocess.run(["./generate.sh"], cwd=GO, env=go_environment(program), check=True, timeout=MOST_SECONDS)
    words_in_go(program, "build", "-o", str(made), "./internal/adapter")
    return [str(made)]


def go_environment(program, **more):
    """With this Go, and no other that it would fetch."""
    path = "%s:%s" % (pathlib.Path(program).parent, os.environ["PATH"])
    return {**os.environ, "PATH": path, "GOTOOLCHAIN": "local", **more}


# What `go`, `npm`, `cargo` and `mvn` say where modules cannot be reached, or they are too old for them. Anything else
# that they fail with, such as a wrong checksum, is a fault.
UNREACHABLE = re.compile(r"dial tcp|no such host|i/o timeout|connection refused|connection reset|network is unreachable|"
                         r"TLS handshake timeout|proxyconnect|module lookup disabled|: 50[234] |requires go >=|"
                         r"npm (ERR!|error) code (ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|ERR_SOCKET|E[45]\d\d)|"
                         r"[Cc]ould(n't| not) (resolve|connect)|[Ff]ailed to connect|network failure|requires rustc |"
                         r"feature `edition2024` is required|"
                         r"Could not (transfer|find) artifact|Unknown host|Cannot access [\w-]+ \(")  # fmt: skip
MOST_SECONDS = 900


def words_in_go(program, *words, why=None, **environment):
    """What `go` prints, which must succeed, or `why` the client is not tested: if the network is at fault."""
    return printed([program, *words], GO, go_environment(program, **environment), why)


def printed(words, folder, environment, why):
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode and why and UNREACHABLE.search(done.stdout + done.stderr):
        raise unittest.SkipTest("%s: %s" % (why, (done.stdout + done.stderr).strip()[-300:]))
    if done.returncode:
        raise AssertionError("%s\n%s%s" % (" ".join(map(str, words)), done.stdout, done.stderr))
    return done.stdout


def node():
    """Node, where npm is beside it."""
    return find("node") if find("npm") else None


def typescript(program):
    """Fetches the packages that package-lock.json names where they are not there yet, generates the messages, and builds."""
    version = words_of_npm(program, program, "--version").strip()
    if int(version.lstrip("v").split(".")[0]) < 20:
        raise unittest.SkipTest("client/ts wants Node 20, and this is %s" % version)
    installed, lock = TYPESCRIPT / "node_modules" / ".package-lock.json", TYPESCRIPT / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        words_of_npm(program, "npm", "ci", "--no-audit", "--no-fund", why="the packages of client/ts cannot be had")
    words_of_npm(program, "npm", "run", "--silent", "build")
    return [program, str(TYPESCRIPT / "dist" / "adapter" / "main.js")]


def words_of_npm(program, *words, why=None, **environment):
    """What a program of Node's prints in client/ts, which must succeed, or `why` the client is not tested."""
    path = "%s:%s" % (pathlib.Path(program).parent, os.environ["PATH"])
    return printed(words, TYPESCRIPT, {**os.environ, "PATH": path, **environment}, why)


RUST_BUILT = ROOT / "out" / "clients" / "rust"


def rust(program):
    """Fetches the crates that Cargo.lock names where they are not there yet, and builds all that is tested."""
    words_of_cargo(program, "fetch", "--locked", why="the crates of client/rust cannot be had")
    words_of_cargo(program, "build", *RUST_ALL)
    return [str(RUST_BUILT / "debug" / "kiln-adapter")]


def rust_release(program):
    words_of_cargo(program, "fetch", "--locked", why="the crates of client/rust cannot be had")
    words_of_cargo(program, "build", "--release", "--package=kiln-adapter", "--locked", "--offline")
    return [str(RUST_BUILT / "release" / "kiln-adapter")]


# Always the same, so that nothing is built twice.
RUST_ALL = ("--workspace", "--all-features", "--all-targets", "--locked", "--offline")


def words_of_cargo(program, *words, why=None, folder=RUST, **environment):
    """What `cargo` prints in client/rust, which must succeed, or `why` the client is not tested."""
    path = "%s:%s" % (pathlib.Path(program).parent, os.environ["PATH"])
    more = {"PATH": path, "CARGO_TARGET_DIR": str(RUST_BUILT), "CARGO_BUILD_JOBS": "2",
            "CARGO_PROFILE_DEV_DEBUG": "line-tables-only"}  # fmt: skip
    return printed([program, *words], folder, {**os.environ, **more, **environment}, why)


def maven():
    """Maven, where a compiler is beside it."""
    return find("mvn") if find("javac") else None


def java(program):
    """Fetches what pom.xml names where it is not there yet, generates the messages, and compiles, where anything is newer."""
    version = printed(["javac", "-version"], JAVA, os.environ, None).split()[1]
    if int(version.split(".")[0]) < 17:
        raise unittest.SkipTest("client/java wants Java 17, and this is %s" % version)
    rooms = [JAVA / name for name in ("src", "adapter", "examples")]
    rooms += [ROOT / "proto" / name for name in ("kiln", "inference")]
    sources = [JAVA / "pom.xml"] + [path for room in rooms for path in room.rglob("*") if path.suffix in (".java", ".proto")]
    stamp = JAVA / "target" / "kiln.stamp"
    if not stamp.exists() or stamp.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        begun = time.time()
        words_of_maven(program, "test-compile", why="what client/java is built of cannot be had")
        stamp.touch()
        os.utime(stamp, (begun, begun))
    return words_of_java("kiln.adapter.Main")


def java_server(program):
    java(program)
    return ["java", "-cp", class_path(), "kiln.adapter.Main"]


def class_path():
    places = [JAVA / "target" / "test-classes", JAVA / "target" / "classes", (JAVA / "target" / "classpath").read_text()]
    return ":".join(map(str, places))


def words_of_java(*words):
    """How a class of client/java, which is compiled already, or a file of one class is run: as what ends soon."""
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path(), *words]


def words_of_maven(program, *words, why=None, **environment):
    """What Maven prints in client/java, which must succeed, or `why` the client is not tested."""
    words = [program, "--batch-mode", "--no-transfer-progress", *words]
    return printed(words, JAVA, {**os.environ, **environment}, why)


# KILN_CPP_ADAPTER names another than the one that Bazel built.
CPP_TARGET = "//tests/clients/adapters:cpp_adapter"
CPP_BUILT = ROOT / "bazel-bin" / "tests" / "clients" / "adapters" / "cpp_adapter"
CPP_EXAMPLES = ROOT / "bazel-bin" / "client" / "cpp" / "examples"


class NotBuilt(AssertionError):
    """An adapter of the tree's own build that is not there: no reason to pass its client over."""


def cpp(program):
    if not os.access(program, os.X_OK):
        raise NotBuilt("%s is not built: bazel build %s" % (program, CPP_TARGET))
    return [program]


LANGUAGES = {
    row.name: row
    for row in (
        Language("python", lambda: sys.executable, python, "examples/digits_jit.py"),
        Language("go", lambda: find("go", "/usr/local/go/bin/go"), go, "client/go/examples/digits/main.go"),
        Language("typescript", node, typescript, "client/ts/examples/digits.ts"),
        Language("rust", lambda: find("cargo", str(pathlib.Path.home() / ".cargo/bin/cargo")), rust,
                 "client/rust/examples/digits.rs", rust_release),
        Language("java", maven, java, "client/java/examples/kiln/examples/Digits.java", java_server),
        Language("cpp", lambda: os.environ.get("KILN_CPP_ADAPTER", str(CPP_BUILT)), cpp, "client/cpp/examples/digits.cc"),
    )
}  # fmt: skip


def known_failing(language):
    """Case -> why this client does not pass it."""
    return json.loads((HERE / "known_failing.json").read_text()).get(language, {})


def main(name=None):
    if name is None:
        return "\n".join(LANGUAGES)
    toolchain = LANGUAGES[name].toolchain()
    if toolchain is None:
        return "its tools are not on this machine"
    try:
        return "built: " + " ".join(LANGUAGES[name].command(toolchain))
    except (unittest.SkipTest, NotBuilt) as why:
        return str(why)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
