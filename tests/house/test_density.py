"""Code to be read: four numbers of `python -m tests.density` may only fall."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KNOWN = tomllib.loads((ROOT / "tests" / "density.toml").read_text())

_spec = importlib.util.spec_from_file_location("density", ROOT / "tests" / "density.py")
density = importlib.util.module_from_spec(_spec)
sys.modules["density"] = density  # Dataclasses look their module up.
_spec.loader.exec_module(density)


@pytest.fixture(scope="module")
def trees():
    """The files of the package, parsed, by their paths."""
    paths = sorted((ROOT / "tati_re").rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def places(trees, find):
    """Where something stands: file and line."""
    return [f"{path}:{node.lineno}" for path, tree in trees.items() for node in find(tree)]


def test_arguments_stand_in_their_call(trees):
    """No tuple is packed to be splatted once."""
    packed = places(trees, density.packed_calls)
    assert len(packed) <= KNOWN["packed_calls"], packed


def test_conditional_expressions_are_not_nested(trees):
    nested = places(trees, density.nested_conditionals)
    assert len(nested) <= KNOWN["nested_conditional_expressions"], nested


def test_manifests_are_read_by_attributes(trees):
    """What a manifest says is declared in `runs/manifest_entries.py`, with its type."""
    reads = places(trees, density.manifest_string_reads)
    assert len(reads) <= KNOWN["manifest_string_reads"], reads


def test_unannotated_arguments_only_fall(trees):
    functions = [function for tree in trees.values() for function in density.functions_in(tree)]
    number = sum(
        argument.annotation is None
        for function in functions
        for argument in density.arguments_of(function)
    )
    assert number <= KNOWN["unannotated_arguments"]


def test_no_behavior_depends_on_the_configuration_of_a_method(trees):
    """What a method does is one of its answers; files of the manifest are read elsewhere."""
    rooms = {"optimizers", "posterior", "data", "likelihoods", "models", "testing"}
    asked = {path: tree for path, tree in trees.items() if path.split("/")[1] not in rooms}
    found = places(asked, density.decisions_by_configuration)
    assert len(found) <= KNOWN["decisions_by_configuration"], found


def test_no_other_room_asks_for_the_class_of_a_method(trees):
    classes = density.method_classes()
    assert {"Splitting", "Massive", "ReplicaExchange", "ReplicaSubset", "Fire"} <= classes.keys()
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for node in density.questions_of_kind(tree, path.split("/")[1], classes)
    ]
    assert len(found) <= KNOWN["questions_of_kind"], found


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("def f(m):\n    return m.get_config()['mass']", 1),
        ("def f(m):\n    return m.get_config().get('mass')", 1),
        ("def f(m):\n    said = m.get_config()\n    return 'mass' in said, said['mass']", 2),
        ("def f(m):\n    said = {'a': 1} | m.get_config()\n    return said.get('a')", 1),
        ("def f(m):\n    return {'method': m.get_config()}", 0),
        ("def f(m, then):\n    return m.get_config() == then", 0),
        ("def f(loss):\n    return loss.get_config()['name']", 0),
    ],
)
def test_decisions_by_configuration_are_found(code, number):
    assert len(density.decisions_by_configuration(ast.parse(code))) == number


@pytest.mark.parametrize(
    ("code", "room", "number"),
    [
        ("isinstance(method, Splitting)", "simulation", 1),
        ("isinstance(method, int | Splitting)", "simulation", 1),
        ("isinstance(method, Splitting)", "samplers", 0),
        ("isinstance(method, dict)", "simulation", 0),
    ],
)
def test_questions_of_kind_are_found(code, room, number):
    found = density.questions_of_kind(ast.parse(code), room, {"Splitting": "samplers"})
    assert len(found) == number


def test_public_functions_describe_each_argument():
    """Those of userguide/api.md, and the constructors of its classes."""
    missing = {
        name: sorted(density.undescribed(value)) for name, value in density.public_callables()
    }
    missing = {name: arguments for name, arguments in missing.items() if arguments}
    assert len(missing) <= KNOWN["undescribed_public_callables"], missing


def test_functions_with_several_arguments_describe_each():
    """Of all modules, and of all methods whose names have no underscore."""
    found = dict(density.undescribed_functions(ROOT / "tati_re"))
    assert len(found) <= KNOWN["undescribed_functions"], found


DESCRIBED = '''
class Base:
    def predict(self, inputs, labels):
        """Predicts.

        Args:
            inputs: Of the network.
            labels: True ones.
        """

    def score(self, inputs, labels):
        """Scores of inputs and labels."""


class Heir(Base):
    def predict(self, inputs, labels):
        return 1

    def score(self, inputs, labels):
        return 2


def compare(first, second):
    """Compares.

    Args:
        first: One of two.
    """


def _hidden(first, second):
    pass


def one(first):
    pass
'''


def test_undescribed_functions_are_found(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text(DESCRIBED)
    found = {
        place.split()[-1]: missing for place, missing in density.undescribed_functions(package)
    }
    assert found == {"score": {"inputs", "labels"}, "compare": {"second"}}


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("def f(a, b):\n    both = (a, b)\n    return g(*both)", 1),
        ("def f(a, b):\n    return g(*(a, b))", 1),
        ("def f(a, b):\n    g(*((a, b) if a else ()))", 1),
        ("def f(a):\n    x, rest = a, (a, 2)\n    return g(x, *rest)", 1),
        ("def f(a, b):\n    both = (a, b)\n    return g(*both), h(*both)", 0),
        ("def f(a, b):\n    both = (a, b)\n    return g(both)", 0),
        ("def f(*rest):\n    return g(*rest)", 0),
        ("def f(rows):\n    columns = [row for row in rows]\n    return zip(*columns)", 0),
    ],
)
def test_packed_calls_are_found(code, number):
    assert len(density.packed_calls(ast.parse(code))) == number


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("a if b else c if d else e", 1),
        ("(a if x else b) if c else d", 1),
        ("a if (b if c else d) else e", 1),
        ("a if b else [c if d else e]", 0),
        ("a if b else c", 0),
    ],
)
def test_nested_conditional_expressions_are_found(code, number):
    assert len(density.nested_conditionals(ast.parse(code))) == number


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ('def f(run):\n    return run.manifest["seed"]', 1),
        ('def f(run):\n    return run.manifest.get("options", {}).get("seed", 0)', 2),
        ('def f(run):\n    told = run.manifest\n    part = told["a"]\n    return part["b"]', 2),
        ('def f(manifest):\n    return "turn" in manifest', 1),
        ('def f(said: Manifest):\n    return said.options.table["seed"]', 1),
        ('def f(folder):\n    return manifest.read(folder).get("seed")', 1),
        ("def f(run):\n    return run.manifest.options.seed + run.manifest.options.table[name]", 0),
        ('def f(run):\n    return "data" in run.manifest.objects', 0),
        ('def f(meta):\n    return meta["manifest"]', 0),
    ],
)
def test_string_reads_of_manifests_are_found(code, number):
    assert len(density.manifest_string_reads(ast.parse(code))) == number


def test_all_kinds_of_branches_count():
    code = """
def f(a, b):
    refuse_if(a, "what", a, "expected")
    for x in [y for y in b if y]:
        if a and b or x:
            return 1 if a else 2
    try:
        while a:
            a = g(a)
    except ValueError:
        pass
"""
    function = density.functions_in(ast.parse(code))[0]
    assert density.number_of_branches(function) == 9


def test_each_argument_has_a_line_of_its_own():
    """Two names before one colon are rendered as one argument."""
    text = "What it does.\n\nArgs:\n    a: One.\n        More: of it.\n    b, c: Two.\n    **d: Three.\n"
    assert density.described_arguments(text) == {"a", "d"}


def test_products_with_conditions_are_found():
    code = "[x] * (y > 1) + ['words'] * flag + [0] * count + [x] * len(y) + '-' * width"
    assert len(density.conditional_products(ast.parse(code))) == 2
