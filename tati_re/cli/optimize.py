"""`tati-optimize`: train a network and record the run like a sampled one."""

from typing import Any

from tati_re.cli.arguments import Parser, entry_point, make_parser
from tati_re.cli.run import start
from tati_re.core.process.exit_status import INTERRUPTED
from tati_re.options.make import OPTIMIZE, Options
from tati_re.options.table import NOT_OF_FITS


def _fit(options: Options) -> Any:
    from tati_re.core.backend import tf
    from tati_re.simulation.simulation import Simulation

    sim = Simulation.from_options(options)
    run = sim.fit()
    if options.verbose > 0 and run.exit_status != INTERRUPTED:
        try:
            print(sim.step_size_advice())
        except (tf.errors.OpError, LookupError, NotImplementedError):
            print(
                "The Hessian of U cannot be computed for this model, so no step sizes "
                "are suggested."
            )
        print(run.summary())
    return run


def parser_of_command() -> Parser:
    description = "Train a network with a Keras optimizer or plain gradient descent."
    return make_parser("tati-optimize", description, OPTIMIZE, leave_out=NOT_OF_FITS)


def _body(argv: list[str]) -> int:
    return start(parser_of_command(), argv, "optimize", OPTIMIZE, _fit)


main = entry_point("tati-optimize", _body, __name__, writes_files=True)
