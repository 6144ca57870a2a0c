"""Models built by a user's own Python code, named as `my_net.py:build` or `my_package.my_module:build`."""

import inspect
from typing import Any

from tati_re.core.backend import keras
from tati_re.core.errors import InputError
from tati_re.options.user_code import called, found

FORM = "my_net.py:build or my_module:build"


def imported_model(name: Any, options: Any, input_shape: tuple[int, ...], num_outputs: int) -> Any:
    """The Keras model of `name`: a module or file, a colon, and a function, a class of models, or a model in it; or the
    function itself. The function is called with those of `input_shape` (of one example), `num_outputs` (what a network
    for these data and this loss would have), and the options that its signature names, such as `hidden`, `activation`,
    `dtype` or `seed`. Keras' own random numbers start from `seed`."""

    def builds(value: Any) -> bool:
        return inspect.isfunction(value) or isinstance(value, keras.Model)

    made = (
        found("model", name, FORM, builds, "a function that returns a keras.Model") if isinstance(name, str) else name
    )
    name = name if isinstance(name, str) else "the function"
    takes_hidden = inspect.isroutine(made) and "hidden" in inspect.signature(made).parameters
    if options.hidden and not takes_hidden:
        raise InputError(f"model: {name} takes no hidden.", f"hidden = {options.hidden}", "one of the two")
    if callable(made) and not isinstance(made, keras.Model):
        keras.utils.set_random_seed(options.seed % 2**32)
        made = called("model", made, options, {"input_shape": tuple(input_shape), "num_outputs": int(num_outputs)})
    if not isinstance(made, keras.Model):
        raise InputError(
            f"model: {name} does not return a Keras model.", type(made).__name__, "a function that returns one"
        )
    return made
