"""How each page's commands are run: a row for each block, by its page and first line. One without a row fails
tests/documents/commands_test.py, and so does a row without a block.

Runs: as they stand, in place.py's place, but for what a row replaces and adds. By: another test runs them. Not: nothing does,
and why."""

import hashlib
import re
from typing import Dict, NamedTuple, Tuple


class Runs(NamedTuple):
    # The first digits of the hash of the block's text: as root they write to this machine's disk, so what has changed is run
    # only when somebody has read it, and written the new hash here, which the test that fails says.
    pin: str
    expects: str  # of what they print, in this order: a regular expression for each line of this
    before: str = ""
    after: str = ""
    # By the beginning of a line of the page: what is done after it.
    between: Dict[str, str] = {}
    replaced: Dict[str, str] = {}
    needs: Tuple[str, ...] = ()


class By(NamedTuple):
    test: str
    # How it names what it runs; its page if not said.
    words: str = ""


class Not(NamedTuple):
    reason: str


SERVED = "begin kilnd\n"
DEVICES = "kiln devices"
CLUSTER = Not("needs a Kubernetes cluster; ./dev helm renders the chart and has kilnd read what comes out")
CLEAN_ROOTS = By("tests/clients/clean_roots.py")
BUILDS = Not("builds the tree, or calls what did; the tests are part of it")
CARD = Not("needs a machine with a GPU; ./dev bundle makes what runs there")
FETCHES = Not("fetches from PyPI; tests/python/package/wheel_test.py looks at what is installed")
CLOSED = "kiln --server=%s --token_file=token --tls_ca=server.pem devices"
TENANT = r"""printf 'tenant { name: "a" token { sha256: "%s" } }' "$(sha256sum <token | cut -d ' ' -f 1)" >tenants.txtpb"""
# The first digits of the hash of the program that the server has.
HASH = "kiln programs --json | jq -r '.programs[0].graph_hash' | base64 -d | od -An -tx1 | tr -d ' \\n' | head -c 6"

ROWS = {
    "README.md": {
        "./dev demo": BUILDS,
        "apt-get install": Runs(
            "58df57c296c4", "float32", replaced={"apt-get install -y ./kiln_*_amd64.deb": ": ./dev first-minute does"}),
    },
    "client/python/README.md": {"pip install": FETCHES},
    "docs/balancers.md": {
        "kilnd --listen=0.0.0.0:7437": Runs("84cdf39273cc",
            "CPU:0", after=CLOSED % "gpu1.example:7437",
            replaced={"--tls_certificate=… --tls_key=… --tenants=…":
                      "--tls_certificate=server.pem --tls_key=server.key --tenants=tenants.txtpb"}),
        "kilnd --drain_grace_seconds=15": Runs("01212d887fee", "7437 serves", after="kiln health", replaced={" …": ""}),
    },
    "docs/capture.md": {
        "kilnd --capture": Runs("f77337f1d4ed",
            "float32\nadd|[0-9a-f]{8}\nadd|[0-9a-f]{8}", replaced={"H:P": "localhost:7437"},
            between={"kilnd --capture": "kiln run add.uop --random\nstop", "kiln play session.kilncap --backend": SERVED}),
    },
    "docs/clients.md": {
        # In clean roots, by ./dev clean-clients: not in ./dev test.
        "python3 -m venv venv\n. venv": CLEAN_ROOTS,
        "python first.py": CLEAN_ROOTS,
        "go mod init first": CLEAN_ROOTS,
        "npm init -y": CLEAN_ROOTS,
        "cargo init": CLEAN_ROOTS,
        "java -cp \"../kiln": CLEAN_ROOTS,
        "./dev setup": CLEAN_ROOTS,
        "bazel build //client/cpp/examples:first": CLEAN_ROOTS,
        "python examples/digits_jit.py": By("tests/clients/python_client_test.py", "learns_digits"),
        "cd client/go\n./generate.sh        #": By("tests/clients/go_client_test.py", '"test", "-count=1"'),
        "cd client/go\n./generate.sh\n": By("tests/clients/go_client_test.py", "learns_digits"),
        "cd client/ts\nnpm ci": By("tests/clients/languages.py", '"npm", "ci"'),
        "cd client/ts\nnode": By("tests/clients/ts_client_test.py", "learns_digits"),
        "cd client/rust\ncargo test": By("tests/clients/rust_client_test.py", '"test", '),
        "cd client/rust\ncargo run": By("tests/clients/rust_client_test.py", "learns_digits"),
        "cd client/java\nmvn test": By("tests/clients/java_client_test.py"),
        "cd client/java\nmvn -q": By("tests/clients/java_client_test.py", "learns_digits"),
        "bazel build //client/cpp/examples:digits": By("tests/clients/cpp_client_test.py", "learns_digits"),
    },
    "docs/cluster.md": {"mpirun -n 4": By("tests/cluster/cluster.py", '"srun", "--mpi=pmix"')},
    "docs/deployment.md": {
        "apt-get install -y ./kiln_*_amd64.deb\nkilnd": By("tests/deploy/first_minute.py"),
        "tar -xf": By("tests/deploy/first_minute.py"),
        "python3 -m venv": By("tests/deploy/first_minute.py"),
        "systemctl enable": Not("needs systemd as process 1; tests/deploy/systemd_test.py runs kilnd under what the unit forbids"),
        "install -m 640": Runs(
            "c7256892deab", "640 /etc/kiln/server.key\n640 /etc/kiln/tenants.txtpb", after="stat -c '%a %n' /etc/kiln/*"),
        "skopeo copy": Not("needs a registry; ./dev image unpacks and runs the archive"),
        "helm install": CLUSTER,
        "kubectl get": CLUSTER,
        "apt-get install -y ./kiln_*_amd64.deb\nhelm": CLUSTER,
    },
    "docs/first_client.md": {"mkdir -p stubs": By("tests/python/first_client_test.py")},
    "docs/gpu.md": {
        "kiln explain model.uop --source": Runs("3b78eea9e5c0",
            "target sm_90a\ngfx942\ntarget sm_90a\nELF", before=SERVED, after="cat model.ptx; head -c 4 model.hsaco",
            needs=("kiln_compile",)),
        "./dev bundle": CARD,
        "tar xf kiln-linux": CARD,
    },
    "docs/load.md": {
        "kiln load add.uop": Runs("c11b64f60567",
            "add\nadd\nadd\nlookup", before="begin kilnd --tenants=several.txtpb\nexport KILN_TOKEN_FILE=web.token",
            replaced={"add.uop ": "add.uop --seconds 0.5 --warm-up 0 ", "--seconds 60 --json": "--seconds 1"},
            after="grep -c '<svg' day.svg"),
    },
    "docs/operations.md": {
        "kiln top": Runs(
            "59ed8121c38f", "CPU:0\nCPU:0\ntenant\nsession\nCPU:0", before=SERVED + "kiln run add.uop --random", needs=("jq",)),
        "kiln programs export": Runs("dc912aea598e",
            "float32\nwarm.kiln\n1", before="head -c 32 /dev/urandom >key; chmod 600 key\n"
            "begin kilnd --listen=127.0.0.2:7437 --program_cache_dir=new --program_cache_key_file=key\n"
            "begin kilnd --program_cache_dir=old --program_cache_key_file=key\nkiln run add.uop --random"),
        "bazel run": BUILDS,
    },
    "docs/python.md": {"pip install": FETCHES},
    "docs/python_arrays.md": {"./dev array-api": Not("wants a checkout of the standard's own tests")},
    "docs/python_tutorial.md": {"pip install": FETCHES},
    "docs/security.md": {
        "head -c 32": Runs("1052500f4b6d", "[0-9a-f]{64}\nCPU:0", between={"sha256sum": TENANT}, replaced={"ca.pem": "server.pem"}),
        "(umask 077": Runs("b5e017137f9f", "float32\n1", before="umask 022", between={
            "kilnd --program_cache_dir": "kiln run add.uop --random\n"
            "kiln cache export /mnt/programs bundle.kiln --key_file /etc/kiln/programs.key"}),
        "kilnd --listen=unix:": Runs("900e230bb6f8",
            "CPU:0", replaced={"haproxy -f deploy/haproxy.cfg": "haproxy -f haproxy.cfg &"}, needs=("haproxy",),
            after="until kiln --server=localhost:7437 --token_file=token --tls_ca=server.pem devices; do sleep 0.1; done"),
    },
    "docs/serving.md": {
        "pip install": By("tests/e2e/serving/page_test.py"),
        "kilnd --models=models --listen=127.0.0.1:8001": By("tests/e2e/serving/page_test.py"),
        "curl -s -X POST": By("tests/e2e/serving/page_test.py"),
        "curl -s http://127.0.0.1:8000/v2/models/double\n": By("tests/e2e/serving/http_test.py"),
        "curl -s http://127.0.0.1:8000/v2/models/double/infer -d": By("tests/e2e/serving/http_test.py"),
        "json=": By("tests/e2e/serving/http_test.py"),
        "kilnd --models=models --listen=unix:": Runs("845040d55897",
            "CPU:0", before="mkdir models", after="kiln --server=unix:/run/kiln/socket devices"),
    },
    "docs/slurm.md": {
        "sbatch": Not("asks for more nodes and GPUs than one machine has; what tests/deploy/slurm_pool_test.py types is its like"),
        "jq -r": By("tests/deploy/slurm_pool_test.py", "page_s_accounts"),
    },
    "docs/tinygrad.md": {
        "pip install": Runs("e514dc19f85f", r"\[2.0, 3.0\]", before=SERVED, needs=("tinygrad",),
                            replaced={"pip install 'client/python[tinygrad]'": ": Python here has it"}),
    },
    "docs/tracing.md": {
        "kiln trace": Runs("dba853d08930", "trace.json\nslow.json\ntrace.json", before=SERVED + "kiln run add.uop --random",
                           replaced={"--kernels 5": "--kernels 1"}),
        "kilnd --otlp_endpoint": Runs("ecb00acd8c5e", "7437 serves", after="kiln health"),
    },
    "docs/tuning.md": {
        "kiln explain model.uop": Runs("8f4ff845a95b", "SPLIT.*THREAD\ntype=REDUCE\ntype=UNROLL", before=SERVED),
        "kiln tune": Runs("092899699034",
            "sum_64\nsum_64\n1$", before=SERVED, needs=("jq",), after="grep -c '<svg' search.svg",
            replaced={"kiln tune model.uop": "kiln tune model.uop --budget_ms 500 --beam 1",
                      "6f0c2b --budget_ms 60000 --beam 8": "$(%s) --budget_ms 500 --beam 1" % HASH}),
        "kiln explain model.uop --batching": Runs("2e0b7b024d92",
            "n: row-wise: yes", before=SERVED, replaced={"model.uop": "rows.uop"}),
    },
}

# The rest: which test reads a page's blocks of a language. What is no code has none: output of what stands before it, parts
# of files.
OTHERS = {
    ("client/python/README.md", "python"): "tests/python/docs_test.py",
    ("docs/balancers.md", "nginx"): "tests/python/failures/nginx_test.py",
    ("docs/clients.md", "cpp"): "tests/clients/cpp_client_test.py",
    ("docs/clients.md", "go"): "tests/clients/go_client_test.py",
    ("docs/clients.md", "java"): "tests/clients/java_client_test.py",
    ("docs/clients.md", "python"): "tests/clients/python_client_test.py",
    ("docs/clients.md", "rust"): "tests/clients/rust_client_test.py",
    ("docs/clients.md", "ts"): "tests/clients/ts_client_test.py",
    ("docs/deployment.md", "yaml"): "tests/deploy/chart.py",
    ("docs/first_client.md", "python"): "tests/python/first_client_test.py",
    ("docs/ir.md", "uop"): "tests/conformance/BUILD.bazel",
    ("docs/jax.md", "python"): "tests/python/jax/docs_test.py",
    ("docs/python.md", "python"): "tests/python/docs_test.py",
    ("docs/python_arrays.md", "python"): "tests/python/numpy_namespace/page_test.py",
    ("docs/python_functions.md", "python"): "tests/python/functions/docs_test.py",
    ("docs/python_howto.md", "python"): "tests/python/docs_test.py",
    ("docs/python_interchange.md", "python"): "tests/python/interchange/docs_test.py",
    ("docs/python_tutorial.md", "python"): "tests/python/docs_test.py",
    ("docs/serving.md", "python"): "tests/e2e/serving/page_test.py",
    ("docs/slurm.md", "console"): "tests/deploy/slurm_pool_test.py",
    ("docs/tinygrad.md", "python"): "tests/tinygrad/docs_test.py",
}
NO_CODE = ("", "text", "json", "toml")


def row_of(block):
    """Its key and row; the key that says the most, where several fit. KeyError if there is none."""
    fit = [key for key in ROWS.get(block.page, {}) if block.text.startswith(key)]
    if not fit:
        raise KeyError("%s:%d" % (block.page, block.line))
    key = max(fit, key=len)
    return (block.page, key), ROWS[block.page][key]


def pin(block):
    return hashlib.sha256(block.text.encode()).hexdigest()[:12]


def script(block, row):
    """Of bash, for place.py: a kilnd that a line starts and leaves in the foreground is waited for, and goes on."""
    text = block.text.replace("\\\n", "")
    for old, new in row.replaced.items():
        assert old in text, "%s:%d has no %r to replace" % (block.page, block.line, old)
        text = text.replace(old, new)
    lines, left = [row.before], dict(row.between)
    for line in text.splitlines():
        lines.append(re.sub(r"^kilnd\b(?!.*&$)", "begin kilnd", line))
        for beginning in [beginning for beginning in left if line.startswith(beginning)]:
            lines.append(left.pop(beginning))
    assert not left, "%s:%d has no line that begins with %s" % (block.page, block.line, list(left))
    return "\n".join([*lines, row.after])
