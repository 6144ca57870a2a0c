"""Compiled programs that later calls share: what computes the same is compiled once in a process.

A second run of the same kind, from another seed, on other data of the same shapes, or of a network
built anew, traces its steps again, which takes tenths of a second, and finds the program that the
first one had XLA compile for seconds. Two traces are the same where they agree in all but the names
that TensorFlow numbers.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

_NAMES_OF_GRADIENTS = ("forward_function_name", "backward_function_name")
"""Attributes of a function that name its gradient, which the traced function already holds."""
_MOST = 128
"""Programs kept, the last ones: a search over a few settings and folds of two sizes has some 18 each."""

_programs: OrderedDict[bytes, Any] = OrderedDict()


def shared(traced: Any) -> Any:
    """The program of a traced function, or an earlier one that computes the same: called by its
    name, with what the traced function has captured.
    """
    key = _key(traced)
    _programs[key] = program = _programs.pop(key, None) or _alone(traced._inference_function)
    if len(_programs) > _MOST:
        _programs.popitem(last=False)
    return program


def _alone(function: Any) -> Any:
    """A function of TensorFlow's runtime, without the graph that it was made from, which keeps data
    alive.
    """
    children = [_alone(child) for child in function.children]
    return type(function)(function.name, function._bound_context, function.function_type, children)


def _key(traced: Any) -> bytes:
    """A digest of all that a traced function does: its nodes, and those of the functions that they
    call.
    """
    library = {
        function.signature.name: function
        for function in traced.graph.as_graph_def().library.function
    }
    numbers: dict[str, int] = {}
    waiting = [traced.function_def]
    digest = hashlib.sha256()

    def called(name: str) -> str:
        if name in library and name not in numbers:
            numbers[name] = len(numbers)
            waiting.append(library[name])
        return f"function {numbers[name]}" if name in library else name

    for function in waiting:
        digest.update(_renamed(function, called).SerializeToString(deterministic=True))
    return digest.digest()


def _renamed(function: Any, called: Callable[[str], str]) -> Any:
    """A function with numbers for the names of itself, its arguments and nodes, and those of what
    it calls as told.
    """
    copy = type(function)()
    following = count()
    copy.CopyFrom(function)
    copy.signature.name = ""
    for name in _NAMES_OF_GRADIENTS:
        copy.attr.pop(name, None)
    for kinds in copy.arg_attr.values():  # shapes, and names
        kinds.attr.pop("_user_specified_name", None)
    names: dict[str, str] = {}
    for part in (*copy.signature.input_arg, *copy.node_def):
        part.name = names.setdefault(part.name, str(next(following)))
    outputs = {arg.name: str(number) for number, arg in enumerate(copy.signature.output_arg)}
    for arg in copy.signature.output_arg:
        arg.name = outputs[arg.name]

    def place(text: str) -> str:
        mark = "^" * text.startswith("^")
        name, *output_parts = text.removeprefix("^").split(":")
        return mark + ":".join([names[name], *output_parts])

    for node in copy.node_def:
        node.ClearField("experimental_debug_info")
        node.attr.pop("_gradient_op_type", None)  # a name, of a gradient that is not taken any more
        node.op = called(node.op)
        node.input[:] = map(place, node.input)
        for attribute in (node.attr[name] for name in sorted(node.attr)):
            for called_function in (
                *([attribute.func] if attribute.HasField("func") else []),
                *attribute.list.func,
            ):
                called_function.name = called(called_function.name)
    returned = dict(copy.ret)
    ends = sorted(map(place, copy.control_ret.values()))
    for part in (copy.ret, copy.control_ret):
        part.clear()
    copy.ret.update({outputs[name]: place(value) for name, value in returned.items()})
    copy.signature.control_output[:] = ends
    return copy
