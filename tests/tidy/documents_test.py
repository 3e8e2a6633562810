"""What documents name besides paths: flags, commands, RPCs, files, environment variables."""

import pathlib
import re
import unittest

import build_files
import tidy_test as tidy

# Flags of programs that are not ours.
FOREIGN_FLAGS = {"data-binary", "strict", "enable-recovery", "kill-on-bad-exit", "mca", "host", "python_out", "grpc_python_out",
                 "mem", "export", "nodes", "gpus-per-node", "cpus-per-task", "no-deps", "now", "set", "create-namespace", "example",
                 "path"}  # fmt: skip
EXAMPLES = {"foo.cc", "foo.h", "foo_test.cc"}  # STYLE.md

CODE = re.compile(r"```(\w*)\n(.*?)^```|`([^`\n]+)`", re.S | re.M)
# Of a fenced block only what a shell or a person is told; other languages have words of their own.
SHELL = ("", "sh", "bash", "text")
FLAG = re.compile(r"(?<![\w-])--([A-Za-z]\w[\w-]*)")
DECLARED = (
    (".cc", re.compile(r'add_(?:option|flag)\("([^"]+)"')),  # CLI11
    (".cc", re.compile(r'"(--\w+)=')),  # fuzzers read theirs by hand
    (".cc", re.compile(r'set_\w+_flag\("([^"]+)"')),
    (".py", re.compile(r'add_argument\("([^"]+)"')),
    ("dev", re.compile(r"== (--\w+)")),
    (".sh", re.compile(r"== (--\w+)")),
)
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
LINK = re.compile(r"\]\((?!https?:)([^()#\s]*)(#[\w-]+)?\)")  # a file, and a heading in it


def anchors(page):
    """What links to its headings end with."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", page), re.M)}  # fmt: skip


def code():
    """(document, text) of everything in backticks and in fenced blocks."""
    for name in tidy.DOCUMENTS:
        for language, block, quoted in CODE.findall(tidy.text(name)):
            if quoted or language in SHELL:
                yield name, quoted or block


def flags():
    names = {"help"}  # CLI11 and argparse make it
    for name in tidy.FILES:
        for suffix, pattern in DECLARED:
            if name.endswith(suffix):
                for spelled in pattern.findall(tidy.text(name) or ""):
                    names.update(part[2:] for part in spelled.split(",") if part.startswith("--"))
    rows = re.findall(r'^      \{"([\w.]+)",', tidy.text("server/config_rows.cc"), re.M)
    return names | {row.replace(".", "_") for row in rows}


def rpcs():
    """Service -> its methods."""
    found = {}
    for name in tidy.sources(".proto"):
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", tidy.text(name), re.S | re.M):
            found[service] = set(re.findall(r"^  rpc (\w+)", body, re.M))
    return found


class Documents(unittest.TestCase):
    def check(self, faults):
        faults = list(faults)
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_flags_exist(self):
        declared = flags()
        self.assertGreater(len(declared), 100)
        named = [(name, flag) for name, text in code() for flag in FLAG.findall(text)]
        self.assertGreater(len(named), 50)
        self.check("%s names the flag --%s, which no program declares" % row for row in named
                   if row[1] not in declared | FOREIGN_FLAGS)  # fmt: skip

    def test_foreign_flags_are_foreign_and_needed(self):
        named = {flag for _, text in code() for flag in FLAG.findall(text)}
        self.check("FOREIGN_FLAGS: --%s is ours, or is named no more" % flag for flag in FOREIGN_FLAGS
                   if flag in flags() or flag not in named)  # fmt: skip

    def test_commands_of_dev_exist(self):
        known = set(re.findall(r"^\./dev ([\w-]+)", tidy.text("dev"), re.M))
        self.assertIn("tidy", known)
        labels = {rule.label for rule in build_files.rules()}
        benches = {match.group(1) for name in labels | set(tidy.FILES) if name
                   for match in [re.fullmatch(r"(?://)?tests/bench(?:/\w+)?[:/](\w+)_bench(?:\.py)?", name)] if match}  # fmt: skip
        benches |= set(re.findall(r'\[(\w+)\]="', tidy.text("dev")))  # groups
        fuzzers = {label[len("//tests/fuzz:"):] for label in labels if label and label.startswith("//tests/fuzz:")}
        fuzzers |= {"NAME", "clients"}
        for name, text in code():
            for command, word in re.findall(r"\./dev ([\w-]+)(?: ([\w-]+))?", text):
                with self.subTest(document=name, command=command, word=word):
                    self.assertIn(command, known)
                    if word and not word.startswith("-") and command in ("bench", "fuzz"):
                        self.assertIn(word, benches if command == "bench" else fuzzers)

    def test_rpcs_exist(self):
        services = rpcs()
        self.assertGreater(sum(map(len, services.values())), 30)
        named = 0
        for name in tidy.DOCUMENTS:
            text = tidy.text(name)
            pairs = re.findall(r"\b(\w+Service)\.([A-Z]\w+)", text)
            for service, listed in re.findall(r"\b(\w+Service) ((?:`\w+`(?:, | and )?)+)", text):
                pairs += [(service, method) for method in re.findall(r"`(\w+)`", listed)]
            for service, method in pairs:
                named += 1
                with self.subTest(document=name, rpc="%s.%s" % (service, method)):
                    self.assertIn(method, services.get(service, ()), "there is no such RPC in proto/")
        self.assertGreater(named, 40)

    def test_the_front_page_names_every_rpc(self):
        rows = [line for line in tidy.text("README.md").splitlines() if line.startswith("|")]
        for service, methods in rpcs().items():
            if service in ("Health",):  # gRPC's own
                continue
            own = " ".join(row for row in rows if row.startswith("| " + service))
            for method in methods:
                with self.subTest("%s.%s" % (service, method)):
                    self.assertIn("`%s`" % method, own, "README.md, What works: name it in the row of its service")

    def test_files_named_without_a_folder_exist(self):
        known = {pathlib.PurePosixPath(name).name for name in tidy.FILES}
        self.check("%s: `%s` is no file's name; write the path" % (name, text) for name, text in code()
                   if re.fullmatch(r"\w+\.(cc|h|def|proto|bzl|sh)", text) and text not in known | EXAMPLES)  # fmt: skip

    def test_links_lead_somewhere(self):
        """To a file that is there, and to a heading of it."""
        links = [(name, *link) for name in tidy.DOCUMENTS for link in LINK.findall(FENCED.sub("", tidy.text(name)))]
        self.assertGreater(len(links), 20)
        for name, path, heading in links:
            with self.subTest(document=name, link=path + heading):
                found = ((tidy.ROOT / name).parent / path).resolve() if path else tidy.ROOT / name
                self.assertTrue(found.exists())
                if heading:
                    self.assertIn(heading[1:], anchors(found.read_text()))

    def test_the_pages_about_python_link_each_other(self):
        pages = [name for name in tidy.DOCUMENTS if re.fullmatch(r"docs/(python\w*|jax)\.md", name)]
        self.assertGreater(len(pages), 6)
        self.check("%s names `%s`: write [its title](%s)" % (name, other, other[len("docs/"):]) for name in pages
                   for other in pages if "`%s`" % other in tidy.text(name))  # fmt: skip
        linked = {path for name in pages for path, _ in LINK.findall(tidy.text(name))}
        self.check("no page about Python links %s" % name for name in pages if name[len("docs/"):] not in linked)

    def test_environment_variables_exist(self):
        words = {word for name in tidy.FILES if not name.endswith(".md")
                 for word in re.findall(r"\bKILN_\w+", tidy.text(name) or "")}  # fmt: skip
        words |= {"KILN_" + flag.upper() for flag in flags()}
        self.check("%s names $%s, which nothing reads" % (name, variable) for name, text in code()
                   for variable in re.findall(r"\bKILN_[A-Z]\w*", text) if variable not in words)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
