"""What the BUILD files say: every rule with its arguments, without running Bazel.

A BUILD file is nearly Python. It is run here with stand-ins, each of which writes its call down.
"""

import builtins
import fnmatch
import pathlib

import tidy_test as tidy


class Rule:
    def __init__(self, folder, kind, positional, named):
        self.folder, self.kind, self.named = folder, kind, named
        self.label = "//%s:%s" % (folder, named["name"]) if "name" in named else None
        self.values = list(positional) + [value for key, value in named.items() if key not in ("name", "visibility")]

    def labels(self):
        """All labels, and files of this package as if they were labels, that it names."""
        return {absolute(text, self.folder) for text in strings(self.values)}


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.items()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings(part)


def absolute(text, folder):
    text = text.removeprefix("@kiln").replace("@system//:", "//third_party:")
    if not text.startswith("//"):
        return "//%s:%s" % (folder, text.removeprefix(":"))
    package, _, name = text[2:].partition(":")
    return "//%s:%s" % (package, name or package.rsplit("/", 1)[-1])


class Names(dict):
    """Of a BUILD file. Whatever it does not define itself is a rule."""

    def __init__(self, folder, rules):
        super().__init__(glob=self.glob, load=lambda *_: None, select=lambda choices: sum(choices.values(), []))
        self.folder, self.rules = folder, rules

    def __missing__(self, kind):
        if hasattr(builtins, kind):
            raise KeyError(kind)
        return lambda *positional, **named: self.rules.append(Rule(self.folder, kind, positional, named))

    def glob(self, include, exclude=()):
        inside = [name[len(self.folder) + 1:] for name in tidy.FILES if name.startswith(self.folder + "/")]
        return [name for name in inside
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in include)
                and not any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude)]  # fmt: skip


def rules():
    found = []
    for name in tidy.FILES:
        if name.endswith(("BUILD.bazel", "system.BUILD")):
            folder = str(pathlib.PurePosixPath(name).parent)
            exec(compile(tidy.text(name), name, "exec"), Names("" if folder == "." else folder, found))
    return found
