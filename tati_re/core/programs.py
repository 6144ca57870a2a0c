"""Compiled programs that later calls share: what computes the same is compiled once in a process.

A second run of the same kind, from another seed, on other data of the same shapes, or of a network built anew, traces
its steps again, which takes tenths of a second, and finds the program that the first one had XLA compile for seconds.
Two traces are the same where they agree in all but the names that TensorFlow numbers."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

_MOST = 32
"""Programs kept, the last ones."""
_MOST_BYTES = 1 << 23
"""Of the tensors that a program to be kept holds: it keeps them alive."""

_programs: OrderedDict[bytes, Any] = OrderedDict()


def shared(traced: Any) -> Any:
    """A traced function that computes the same, whose captured tensors are to be replaced by this one's, or itself."""
    key = _key(traced)
    found = _programs.pop(key, traced)
    if sum((value.shape.num_elements() or 0) * value.dtype.size for value in found.captured_inputs) <= _MOST_BYTES:
        _programs[key] = found
    if len(_programs) > _MOST:
        _programs.popitem(last=False)
    return found


def _key(traced: Any) -> bytes:
    """A digest of all that a traced function does: its nodes, and those of the functions that they call."""
    library = {function.signature.name: function for function in traced.graph.as_graph_def().library.function}
    numbers: dict[str, int] = {}
    waiting, digest = [traced.function_def], hashlib.sha256()

    def called(name: str) -> str:
        if name in library and name not in numbers:
            numbers[name] = len(numbers)
            waiting.append(library[name])
        return f"function {numbers[name]}" if name in library else name

    for function in waiting:
        digest.update(_renamed(function, called).SerializeToString(deterministic=True))
    return digest.digest()


def _renamed(function: Any, called: Callable[[str], str]) -> Any:
    """A function with numbers for the names of itself, its arguments and nodes, and those of what it calls as told."""
    copy, following = type(function)(), count()
    copy.CopyFrom(function)
    copy.signature.name = ""
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
        name, *rest = text.removeprefix("^").split(":")
        return mark + ":".join([names[name], *rest])

    for node in copy.node_def:
        node.ClearField("experimental_debug_info")
        node.attr.pop("_gradient_op_type", None)  # a name, of a gradient that is not taken any more
        node.op = called(node.op)
        node.input[:] = map(place, node.input)
        for attribute in (node.attr[name] for name in sorted(node.attr)):
            for own in (*([attribute.func] if attribute.HasField("func") else []), *attribute.list.func):
                own.name = called(own.name)
    returned, ends = dict(copy.ret), sorted(map(place, copy.control_ret.values()))
    for part in (copy.ret, copy.control_ret):
        part.clear()
    copy.ret.update({outputs[name]: place(value) for name, value in returned.items()})
    copy.signature.control_output[:] = ends
    return copy
