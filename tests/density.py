"""How densely the package is written: `python -m tests.density` prints a table for the package and one for each room.

Code is formatted alike first, by the formatter's defaults at 88 columns, so that packages with
other line lengths compare. The numbers are there to look at: only those that
`tests/house/test_density.py` holds are limits.
"""

from __future__ import annotations

import argparse
import ast
import enum
import importlib.util
import inspect
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tati_re"

LONG_FUNCTION = 10
"""Lines from which on a function is expected to have blank lines."""

MANY_BRANCHES = 15
"""Branches of all kinds above which a function is counted as branched."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = Function | ast.Lambda | ast.ClassDef

ANCHORS = {
    "expressions per code line": "2.5 to 3.2",
    "conditional expressions per 1,000 lines": "2 to 16",
    "tuple = tuple per 1,000 lines": "0 to 1.6",
    "blank lines in long functions, %": "5.5 to 12.9",
    "docstring lines, %": "14 to 39",
    "characters per docstring line": "42 to 49",
    "public functions with Args, %": "17 to 79",
    "functions with over 15 branches, %": "0 to 2.7",
    "packed calls": "0",
}
"""The same numbers for Keras, posteriors, emcee, diffrax, optax and NumPyro."""


def is_function(node: ast.AST) -> bool:
    """Whether a node defines a function or a method."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def functions_in(tree: ast.AST) -> list[Function]:
    """All functions and methods of a file, nested ones included."""
    return [node for node in ast.walk(tree) if is_function(node)]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions and classes inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child

        if not isinstance(child, Scope):
            yield from own_nodes(child)


def docstring_of(node: ast.AST) -> ast.Constant | None:
    """The docstring's node; also that of an attribute, which stands below its assignment."""
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value
    return None


def number_of_branches(function: Function) -> int:
    """All ways in which a function decides, those that linters leave out included.

    Args:
        function: The function; functions inside it count as functions of their own.

    Returns:
        The number of `if`, `for`, `while`, `except`, `case`, conditional expressions, further
        operands of `and` and `or`, conditions of comprehensions, and calls of `refuse_if`.
    """
    return sum(branches_at(node) for node in own_nodes(function))


def branches_at(node: ast.AST) -> int:
    """The branches that one node adds."""
    if isinstance(
        node, ast.If | ast.For | ast.While | ast.ExceptHandler | ast.IfExp | ast.match_case
    ):
        return 1
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return len(node.ifs)
    if isinstance(node, ast.Call):
        return int(name_called(node) == "refuse_if")
    return 0


def name_called(call: ast.Call) -> str:
    """The last part of the name of what is called; empty if it has none."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def packed_calls(tree: ast.AST) -> list[ast.Call]:
    """Calls that take their arguments from a tuple or list made for this call alone.

    Either `call(*(a, b))`, or a name that is bound once, to a tuple or list, and whose only use is
    `call(*name)`. Arguments belong in the call.
    """
    scopes = [tree, *functions_in(tree)]
    return [call for scope in scopes for call in _packed_in(scope)]


def _packed_in(scope: ast.AST) -> Iterator[ast.Call]:
    bound: dict[str, list[ast.expr]] = {}
    loads: Counter[str] = Counter()

    for node in own_nodes(scope):
        for name, value in bindings(node):
            bound.setdefault(name, []).append(value)

    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loads[node.id] += 1

    once = {
        name
        for name, values in bound.items()
        if len(values) == 1 and loads[name] == 1 and is_sequence(values[0])
    }

    for node in own_nodes(scope):
        if isinstance(node, ast.Call):
            packed = [argument.value for argument in node.args if isinstance(argument, ast.Starred)]
            if any(is_literal(value) or is_name_in(value, once) for value in packed):
                yield node


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and the values that an assignment gives them."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from _pairs(node.target, node.value)
    if isinstance(node, ast.NamedExpr):
        yield node.target.id, node.value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for part, part_value in zip(target.elts, value.elts, strict=False):
            yield from _pairs(part, part_value)


def is_literal(value: ast.expr) -> bool:
    """Whether a value is a tuple or list as it is written, or a choice between two."""
    if isinstance(value, ast.IfExp):
        return is_literal(value.body) or is_literal(value.orelse)
    return isinstance(value, ast.Tuple | ast.List)


def is_sequence(value: ast.expr) -> bool:
    """Whether a value is a tuple or list, or a sum or product of them."""
    if isinstance(value, ast.BinOp):
        return is_sequence(value.left) or is_sequence(value.right)
    return is_literal(value)


def is_name_in(value: ast.expr, names: set[str]) -> bool:
    """Whether a value is one of these names."""
    return isinstance(value, ast.Name) and value.id in names


def nested_conditionals(tree: ast.AST) -> list[ast.IfExp]:
    """Conditional expressions with another one as a part: in a value or in the condition."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp)
        and any(isinstance(part, ast.IfExp) for part in (node.body, node.test, node.orelse))
    ]


def manifest_string_reads(tree: ast.AST) -> list[ast.AST]:
    """Reads of a run's manifest by a string key, whose entries have attributes: `run.manifest["seed"]`,
    `manifest.get("kind")`, `"turn" in run.manifest`, `manifest.options.table["seed"]`.
    """
    reads = manifest_reads_of(own_nodes(tree), set())
    for function in functions_in(tree):
        reads += manifest_reads_of(own_nodes(function), names_of_manifests(function))
    return list(dict.fromkeys(reads))


def names_of_manifests(function: Function) -> set[str]:
    """Names in a function that hold a manifest or a part of it."""
    names = {
        argument.arg
        for argument in arguments_of(function)
        if argument.arg == "manifest" or is_manifest_type(argument.annotation)
    }
    assigned = [
        (target, node.value)
        for node in own_nodes(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]
    for _ in assigned:  # a name may be made of a later one in a loop
        names |= {target.id for target, value in assigned if is_of_manifest(value, names)}
    return names


def is_manifest_type(annotation: ast.expr | None) -> bool:
    """Whether the type of an argument is a manifest."""
    return annotation is not None and "Manifest" in ast.unparse(annotation)


def manifest_reads_of(nodes: Iterable[ast.AST], names: set[str]) -> list[ast.AST]:
    """The reads by a string key among some nodes; `names` hold manifests."""
    reads: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            source, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            source, key = node.func.value, node.args[0]
            if node.func.attr not in ("get", "pop", "setdefault"):
                continue
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            source, key = node.comparators[0], node.left
            if not is_whole_manifest(source):
                continue
        else:
            continue
        if is_text(key) and is_of_manifest(source, names):
            reads.append(node)
    return reads


def is_whole_manifest(node: ast.AST) -> bool:
    """Whether an expression is called a manifest."""
    name = node.attr if isinstance(node, ast.Attribute) else None
    return (node.id if isinstance(node, ast.Name) else name) == "manifest"


def is_text(node: ast.AST) -> bool:
    """Whether a node is a constant text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_of_manifest(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a manifest, or a table of one.

    Args:
        node: The expression.
        names: Names that hold manifests, or parts of them.
    """
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr == "manifest" or is_of_manifest(node.value, names)
    if isinstance(node, ast.Subscript):
        return is_of_manifest(node.value, names)
    if isinstance(node, ast.BoolOp):
        return any(is_of_manifest(value, names) for value in node.values)
    if isinstance(node, ast.BinOp):
        return is_of_manifest(node.left, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        made_of = node.func.value
        if isinstance(made_of, ast.Name) and made_of.id == "manifest":
            return node.func.attr in ("read", "note")
        return node.func.attr == "get" and is_of_manifest(made_of, names)
    return False


CONFIGURED = ("loss", "prior", "likelihood", "dataset", "preparation", "correction", "made")
"""Whose configuration is no method's; `made` is a prior or a loss."""

ROOMS_OF_METHODS = {"samplers", "exchange", "optimizers"}
"""Rooms of which each knows the kinds of its own methods, and those of core."""


def decisions_by_configuration(tree: ast.AST) -> list[ast.AST]:
    """Places that ask for one name of what a method's `get_config` gives.

    Behavior belongs to answers of the method; its configuration is for the manifest. The whole of
    it may be stored, or compared.
    """
    return [place for scope in [tree, *functions_in(tree)] for place in _decisions_in(scope)]


def _decisions_in(scope: ast.AST) -> Iterator[ast.AST]:
    names = {
        name
        for node in own_nodes(scope)
        for name, value in bindings(node)
        if any(is_configuration(part) for part in ast.walk(value))
    }

    def is_it(value: ast.expr) -> bool:
        return is_configuration(value) or is_name_in(value, names)

    for node in own_nodes(scope):
        if isinstance(node, ast.Subscript) and is_read(node) and is_it(node.value):
            yield node
        if isinstance(node, ast.Attribute) and node.attr in {"get", "keys"} and is_it(node.value):
            yield node
        if isinstance(node, ast.Compare) and any(
            isinstance(sign, ast.In | ast.NotIn) and is_it(value)
            for sign, value in zip(node.ops, node.comparators, strict=True)
        ):
            yield node


def is_configuration(value: ast.expr) -> bool:
    """Whether an expression is the call `get_config()` of a method."""
    if not (isinstance(value, ast.Call) and name_called(value) == "get_config"):
        return False
    asked = value.func.value if isinstance(value.func, ast.Attribute) else value.func
    return not any(name in ast.unparse(asked) for name in CONFIGURED)


def method_classes() -> dict[str, str]:
    """The rooms of all classes of methods, by name."""
    bases: dict[str, list[str]] = {}
    rooms: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).split(".")[-1] for base in node.bases]
                rooms[node.name] = path.relative_to(PACKAGE).parts[0]

    found = {"Method"}
    while True:
        more = {name for name, above in bases.items() if found & {*above}} - found
        if not more:
            return {name: rooms[name] for name in found}
        found |= more


def questions_of_kind(tree: ast.AST, room: str, classes: dict[str, str]) -> list[ast.Call]:
    """Calls of `isinstance` with a class of methods of another room.

    Args:
        tree: A file.
        room: Its room.
        classes: The rooms of the classes, by name.
    """
    known = {room, "core"} if room in ROOMS_OF_METHODS else {room}
    if room == "tuning":
        known = {"tuning", "samplers", "core"}  # it wraps samplers in what tunes them
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and name_called(node) == "isinstance"
        and any(
            isinstance(part, ast.Name) and classes.get(part.id, room) not in known
            for part in ast.walk(node.args[1])
        )
    ]


def conditional_products(tree: ast.AST) -> list[ast.BinOp]:
    """Lists, tuples and texts that are multiplied by a condition: `[x] * (x is not None)`."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and (is_choice(node.left, node.right) or is_choice(node.right, node.left))
    ]


def is_choice(value: ast.expr, factor: ast.expr) -> bool:
    """Whether a list, tuple or text is multiplied by what is true or false, not by a count.

    Nobody repeats a word: whatever multiplies one, or a list of words, is a condition.
    """
    if is_word(value):
        return not isinstance(factor, ast.Constant)
    if isinstance(value, ast.List | ast.Tuple | ast.ListComp):
        words = not isinstance(value, ast.ListComp) and any(map(is_word, value.elts))
        return (words and not is_length(factor)) or is_condition(factor)
    return False


def is_word(value: ast.expr) -> bool:
    """Whether a value is a text of two characters and more, with or without values in it."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and len(value.value) > 1
    return isinstance(value, ast.JoinedStr)


def is_length(value: ast.expr) -> bool:
    """Whether a value is plainly a number: one that is written, or a length."""
    if isinstance(value, ast.Call):
        return name_called(value) == "len"
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id == "count")


def is_condition(value: ast.expr) -> bool:
    """Whether a value is plainly true or false."""
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    if isinstance(value, ast.Call):
        return name_called(value) in {"bool", "isinstance", "any", "all"}
    return isinstance(value, ast.Compare | ast.BoolOp)


def tuple_assignments(tree: ast.AST) -> list[ast.Assign]:
    """Assignments of a tuple to a tuple, swaps left out."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and not is_swap(node.targets[0], node.value)
    ]


def is_swap(target: ast.Tuple, value: ast.Tuple) -> bool:
    """Whether the same names stand on both sides."""
    return sorted(map(ast.unparse, target.elts)) == sorted(map(ast.unparse, value.elts))


def arguments_of(function: Function) -> list[ast.arg]:
    """The arguments of a function, `self` and `cls` left out."""
    spec = function.args
    found = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    found += [extra for extra in (spec.vararg, spec.kwarg) if extra is not None]
    return [argument for argument in found if argument.arg not in {"self", "cls"}]


class InheritedDocstrings:
    """Docstrings of the methods that classes of a package override, by names of classes.

    Args:
        package: The folder of the package.
    """

    def __init__(self, package: Path) -> None:
        self._bases: dict[str, list[str]] = {}
        self._docstrings: dict[tuple[str, str], str] = {}
        for path in sorted(package.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    self._add(node)

    def _add(self, definition: ast.ClassDef) -> None:
        names = [ast.unparse(base).split("[")[0].split(".")[-1] for base in definition.bases]
        self._bases[definition.name] = names
        for node in filter(is_function, definition.body):
            self._docstrings[definition.name, node.name] = ast.get_docstring(node) or ""

    def of(self, name: str, method: str) -> str:
        """The docstrings of a method in all base classes of a class.

        Args:
            name: Name of the class.
            method: Name of the method.
        """
        waiting = list(self._bases.get(name, []))
        found: dict[str, str] = {}
        while waiting:
            base = waiting.pop(0)
            if base not in found:
                found[base] = self._docstrings.get((base, method), "")
                waiting += self._bases.get(base, [])
        return "\n\n".join(text for text in found.values() if text)


def public_functions(
    tree: ast.Module, inherited: InheritedDocstrings | None = None
) -> Iterator[tuple[Function, str]]:
    """Public functions, methods and constructors of a file, with the docstring that describes them.

    Args:
        tree: The file.
        inherited: Docstrings of base classes. Default: None, overriding methods inherit none.

    Yields:
        The function, and its docstring. The docstring of a class belongs to its constructor, and the
        docstring of a base's method to the method that overrides it.
    """
    for node in tree.body:
        if is_function(node) and not node.name.startswith("_"):
            yield node, ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_methods(node, inherited)


def _public_methods(
    definition: ast.ClassDef, inherited: InheritedDocstrings | None
) -> Iterator[tuple[Function, str]]:
    for node in filter(is_function, definition.body):
        text = ast.get_docstring(node) or ""
        if node.name == "__init__":
            yield node, f"{ast.get_docstring(definition) or ''}\n\n{text}"
        elif not node.name.startswith("_"):
            above = "" if inherited is None else inherited.of(definition.name, node.name)
            yield node, f"{text}\n\n{above}"


def undescribed_functions(package: Path) -> Iterator[tuple[str, set[str]]]:
    """Public functions with two arguments or more of which a docstring describes some or none.

    Args:
        package: The folder of the package.

    Yields:
        The place of the function, and the arguments that are not described.
    """
    inherited = InheritedDocstrings(package)
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function, docstring in public_functions(tree, inherited):
            names = {argument.arg for argument in arguments_of(function)}
            missing = names - described_arguments(docstring)
            if len(names) >= 2 and missing:
                place = f"{path.relative_to(package.parent)}:{function.lineno} {function.name}"
                yield place, missing


def described_arguments(docstring: str) -> set[str]:
    """The arguments that a docstring describes, each on a line of its own.

    Args:
        docstring: The text in Google's style, indentation removed. The fields of a result stand in
            `Attributes:` instead.

    Returns:
        Their names, without stars.
    """
    sections = re.findall(
        r"^(?:Args|Attributes):\n((?:[ ]+.*\n?|\n)+)", docstring, flags=re.MULTILINE
    )
    names = set()
    for section in sections:
        indent = len(section) - len(section.lstrip(" "))
        names |= set(re.findall(rf"^ {{{indent}}}\*{{0,2}}(\w+)(?: \([^)]*\))?:", section, re.M))
    return names


def is_read(node: ast.AST) -> bool:
    """Whether a node is an expression with a value, not the target of an assignment."""
    return isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store)


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions and classes of `userguide/api.md`, by their public paths.

    Exceptions, types and modules are left out, and classes that nobody makes by hand keep the
    constructor of `object`.
    """
    sys.path.insert(0, str(ROOT / "docs"))
    api = importlib.import_module("api")

    for room in api.ROOMS:
        for name in api.names_of(room):
            value = getattr(api.module_of(room), name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{room}.{name}", value


def undescribed(value: Callable[..., Any]) -> set[str]:
    """The arguments of a public function or constructor that no line of its docstring describes.

    Args:
        value: A function, or a class: then its constructor, whose arguments may stand in the
            docstring of the class, or below the fields of a dataclass.

    Returns:
        Their names.
    """
    if not inspect.isclass(value):
        names = set(inspect.signature(value).parameters)
        return names - described_arguments(inspect.getdoc(value) or "")

    if not has_constructor(value):
        return set()

    names = set(inspect.signature(value).parameters)
    for base in value.__mro__[:-1]:
        described = described_arguments(inspect.getdoc(base) or "")
        if "options" in described:
            # Estimators take each option of a run, which userguide/options.md describes.
            names -= set(importlib.import_module("tati_re.options.table").OPTIONS)
        names -= described
        names -= described_arguments(inspect.getdoc(base.__init__) or "")
        names -= described_fields(base)
    return {name for name in names if not name.startswith("_")}


def has_constructor(cls: type) -> bool:
    """Whether users make objects of a class with arguments; exceptions and choices are none."""
    if issubclass(cls, BaseException | enum.Enum):
        return False
    if cls.__init__.__name__ == "_no_init_or_replace_init":
        return False  # The constructor of a protocol, also where a class derives from one.
    return cls.__init__ is not object.__init__ or cls.__new__ is not object.__new__


def described_fields(cls: type) -> set[str]:
    """The fields of a dataclass or named tuple with a docstring below them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return set()  # A class that was made by a program has no source.

    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        node.target.id
        for node, below in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and docstring_of(below) is not None
    }


@dataclass
class Density:
    """What was counted in some files; sums of two are counts of both.

    Attributes:
        counts: Numbers by name.
        branched: The functions with more than 15 branches: branches, file and name.
    """

    counts: Counter[str] = field(default_factory=Counter)
    branched: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Density) -> None:
        """Adds the counts of other files."""
        self.counts += other.counts
        self.branched += other.branched

    def rows(self) -> dict[str, float]:
        """The numbers of the table, by the names that `ANCHORS` uses."""
        counts = self.counts
        lines = counts["code lines"]

        return {
            "code lines": lines,
            "expressions per code line": _ratio(counts["expressions"], lines),
            "conditional expressions per 1,000 lines": _ratio(counts["conditionals"], lines, 1000),
            "tuple = tuple per 1,000 lines": _ratio(counts["tuple assignments"], lines, 1000),
            "blank lines in long functions, %": _ratio(
                counts["blank lines"], counts["lines of long functions"], 100
            ),
            "docstring lines, %": _ratio(counts["docstring lines"], counts["lines"], 100),
            "characters per docstring line": _ratio(
                counts["docstring characters"], counts["docstring lines with text"]
            ),
            "public functions with Args, %": _ratio(
                counts["described functions"], counts["public functions"], 100
            ),
            "packed calls": counts["packed calls"],
            "nested conditional expressions": counts["nested conditionals"],
            "string reads of manifests": counts["manifest reads"],
            "products with conditions": counts["products"],
            "functions with over 15 branches": len(self.branched),
            "functions with over 15 branches, %": _ratio(
                len(self.branched), counts["functions"], 100
            ),
            "unannotated arguments": counts["unannotated arguments"],
            "arguments of type Any": counts["arguments of type Any"],
        }


def _ratio(part: float, whole: float, scale: float = 1.0) -> float:
    return scale * part / whole if whole else 0.0


def density_of(text: str, name: str, inherited: InheritedDocstrings | None = None) -> Density:
    """Counts in one file.

    Args:
        text: Its source.
        name: Its path, for the list of branched functions.
        inherited: Docstrings of base classes. Default: None, overriding methods inherit none.

    Returns:
        The counts.
    """
    tree = ast.parse(text)
    counts: Counter[str] = Counter()
    lines = text.splitlines()
    described = _docstring_lines(tree)

    counts["lines"] = len(lines)
    counts["docstring lines"] = len(described)
    counts["docstring characters"] = sum(len(lines[number - 1].rstrip()) for number in described)
    counts["docstring lines with text"] = sum(
        bool(lines[number - 1].strip()) for number in described
    )
    counts["code lines"] = sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in described
        for number, line in enumerate(lines, start=1)
    )
    counts["expressions"] = sum(is_read(node) for node in ast.walk(tree))
    counts["conditionals"] = sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))
    counts["tuple assignments"] = len(tuple_assignments(tree))
    counts["packed calls"] = len(packed_calls(tree))
    counts["nested conditionals"] = len(nested_conditionals(tree))
    counts["manifest reads"] = len(manifest_string_reads(tree))
    counts["products"] = len(conditional_products(tree))

    density = Density(counts)
    for function in functions_in(tree):
        _count_function(density, function, lines, described, name)
    for function, docstring in public_functions(tree, inherited):
        _count_docstring(counts, function, docstring)
    return density


def _docstring_lines(tree: ast.AST) -> set[int]:
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if (docstring := docstring_of(node)) is not None:
            numbers |= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return numbers


def _count_function(
    density: Density, function: Function, lines: list[str], described: set[int], name: str
) -> None:
    counts = density.counts
    counts["functions"] += 1

    body = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    code = [number for number in body if number not in described]
    if len(code) >= LONG_FUNCTION:
        counts["lines of long functions"] += len(code)
        counts["blank lines"] += sum(not lines[number - 1].strip() for number in code)

    branches = number_of_branches(function)
    if branches > MANY_BRANCHES:
        density.branched.append((branches, f"{name}:{function.name}"))

    for argument in arguments_of(function):
        if argument.annotation is None:
            counts["unannotated arguments"] += 1
        elif ast.unparse(argument.annotation) == "Any":
            counts["arguments of type Any"] += 1


def _count_docstring(counts: Counter[str], function: Function, docstring: str) -> None:
    names = {argument.arg for argument in arguments_of(function)}
    if len(names) >= 2:
        counts["public functions"] += 1
        counts["described functions"] += names <= described_arguments(docstring)


def formatted(package: Path, folder: Path) -> Path:
    """A copy of a package, formatted by the formatter's defaults.

    Args:
        package: The folder of the package, or of one room.
        folder: Where the copy goes.

    Returns:
        The folder of the copy.

    Raises:
        SystemExit: The formatter is not installed.
    """
    if importlib.util.find_spec("ruff") is None:
        sys.exit("ruff is not installed. Expected: pip install -c constraints.txt -e '.[dev]'")
    copy = folder / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    format_command = [sys.executable, "-m", "ruff", "format", "--isolated", "--quiet", str(copy)]
    subprocess.run(format_command, check=True)
    return copy


def densities(package: Path) -> dict[str, Density]:
    """Counts for a package and for each of its rooms.

    Args:
        package: The folder of the package.

    Returns:
        The counts by room; those of the whole package under its name.
    """
    found = {package.name: Density()}

    with tempfile.TemporaryDirectory() as folder:
        copy = formatted(package, Path(folder))
        inherited = InheritedDocstrings(copy)
        for path in sorted(copy.rglob("*.py")):
            place = path.relative_to(copy)
            density = density_of(path.read_text(encoding="utf-8"), str(place), inherited)
            found[package.name].add(density)
            if len(place.parts) > 1:
                found.setdefault(place.parts[0], Density()).add(density)

    return found


def table_of(found: dict[str, Density], package: str) -> str:
    """The table of the package, next to the anchors' numbers.

    Args:
        found: Counts by room.
        package: The name of the package among them.

    Returns:
        The table as text.
    """
    rows = found[package].rows()
    lines = [f"{'':42} {package:>10}  anchors"]
    for name, value in rows.items():
        lines.append(f"{name:42} {_text(value):>10}  {ANCHORS.get(name, '')}".rstrip())
    return "\n".join(lines)


def rooms_of(found: dict[str, Density], package: str) -> str:
    """The table of the rooms: a line for each, a column for each number."""
    names = list(found[package].rows())
    legend = [f"  {chr(ord('a') + index)}  {name}" for index, name in enumerate(names)]
    letters = "".join(f"{chr(ord('a') + index):>7}" for index in range(len(names)))
    lines = [f"{'room':14}{letters}"]

    for room, density in sorted(found.items()):
        if room != package:
            values = "".join(f"{_text(value):>7}" for value in density.rows().values())
            lines.append(f"{room:14}{values}")

    return "\n".join([*lines, "", *legend])


def branched_of(found: dict[str, Density], package: str) -> str:
    """The functions with the most branches, most first."""
    functions = sorted(found[package].branched, reverse=True)
    lines = [f"{branches:5}  {name}" for branches, name in functions]
    return "\n".join(["branches of functions with over 15", *lines])


def _text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"


def sites(package: Path) -> Iterable[str]:
    """Where packed calls, nested conditional expressions, products and tuple assignments stand."""
    kinds = {
        "packed call": packed_calls,
        "nested conditional": nested_conditionals,
        "string read of a manifest": manifest_string_reads,
        "product with a condition": conditional_products,
        "tuple = tuple": tuple_assignments,
    }

    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for kind, find in kinds.items():
            for node in find(tree):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {kind}"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.density", description=__doc__)
    parser.add_argument(
        "package", nargs="?", type=Path, default=PACKAGE, help="folder of a package"
    )
    parser.add_argument("--sites", action="store_true", help="list places instead of numbers")
    parser.add_argument("--undescribed", action="store_true", help="list undescribed arguments")
    options = parser.parse_args()

    if options.sites:
        print("\n".join(sites(options.package)))
        return

    if options.undescribed:
        for place, missing in undescribed_functions(options.package):
            print(f"{place}: {', '.join(sorted(missing))}")
        for name, value in public_callables():
            if missing := undescribed(value):
                print(f"{name}: {', '.join(sorted(missing))}")
        return

    package = options.package.name
    found = densities(options.package)
    print(
        table_of(found, package), rooms_of(found, package), branched_of(found, package), sep="\n\n"
    )


if __name__ == "__main__":
    main()
