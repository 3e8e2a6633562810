"""Every public name of the package with its signature and docstring, as Markdown: `reference.py FOLDER`.

A page for each module below, in sections by the file in which names are defined, whose own docstring
begins the section. `./dev reference` writes them to out/reference/.
"""

import importlib
import inspect
import pathlib
import re
import sys
from typing import Any, Dict, List, get_origin

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Of these kiln.jax is there only where jax is.
PAGES = ("kiln", "kiln.numpy", "kiln.numpy.linalg", "kiln.numpy.random", "kiln.aio", "kiln.onnx", "kiln.served",
         "kiln.served.aio", "kiln.typing", "kiln.jax")  # fmt: skip
# What is code, and what Markdown would take for its own.
MARKED = re.compile(r"(`[^`]*`)|[*<]")
SUFFIX = ".md"
# Made by the library alone: how, is no caller's business.
MADE = ("Array", "Buffer", "Client", "Model", "Program", "Recording", "Shards", "Stream", "Tensor", "DType")


def public(module: Any) -> List[str]:
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return sorted(name for name in names if not inspect.ismodule(getattr(module, name)))


def signature(thing: Any) -> str:
    """Without types: the .py files have them, and editors show them."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values() if one.name != "self"]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def text(thing: Any) -> str:
    """The docstring as Markdown: code is indented there, too."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    return "\n".join(line if line.startswith("    ") else MARKED.sub(_escaped, line) for line in lines)


def _escaped(found: "re.Match[str]") -> str:
    return found.group(1) or "\\" + found.group(0)


def entry(where: str, name: str, thing: Any) -> str:
    title = "%s.%s" % (where, name)
    if not callable(thing) or get_origin(thing) is not None:
        what = "A dict: %s." % ", ".join(thing) if isinstance(thing, dict) else "`%r`" % (thing,)
        return "### `%s`\n\n%s\n" % (title, what)
    if not inspect.isclass(thing):
        return "### `%s%s`\n\n%s\n" % (title, signature(thing), text(thing))
    if issubclass(thing, Exception):
        bases = ", ".join(base.__name__ for base in thing.__bases__)
        return "### `%s`: %s\n\n%s\n" % (title, bases, text(thing) if "__doc__" in vars(thing) else "")
    made = "" if name in MADE else signature(thing)
    return "### `%s%s`\n\n%s\n\n%s" % (title, made, text(thing), "".join(members(thing)))


def members(kind: Any) -> List[str]:
    rows = []
    for name in dir(kind):
        owner = next(base for base in kind.__mro__ if name in vars(base))
        if name.startswith("_") or not owner.__module__.startswith("kiln"):
            continue
        one = inspect.getattr_static(kind, name)
        one = getattr(one, "__func__", one)
        if isinstance(one, property) or callable(one):
            said = text(one).replace("\n", "\n  ")
            rows.append("- `%s%s`%s\n" % (name, signature(one) if callable(one) else "", said and ": " + said))
    return rows


def page(name: str) -> str:
    module = importlib.import_module(name)
    sections: Dict[str, List[str]] = {}
    for one in public(module):
        home = name if name == "kiln.typing" else getattr(getattr(module, one), "__module__", None) or name
        sections.setdefault(home if home.startswith("kiln") else name, []).append(one)
    parts = ["# %s\n\n%s\n" % (name, text(module))]
    for home in sorted(sections):
        if home != name:
            parts.append("## %s\n\n%s\n" % (home, text(sys.modules[home]) if home in sys.modules else ""))
        parts += [entry(name, one, getattr(module, one)) for one in sections[home]]
    return "\n".join(parts)


def pages() -> Dict[str, str]:
    """By module, and an index."""
    made = {name: page(name) for name in PAGES if name != "kiln.jax" or _imports(name)}
    rows = [(name, name + SUFFIX, text(importlib.import_module(name)).splitlines()[0]) for name in made]
    index = "# Reference of the Python package\n\n" + "".join("- [%s](%s): %s\n" % row for row in rows)
    return {"index": index, **made}


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        file = out / (name + SUFFIX)
        file.write_text(content)
        print(file)
