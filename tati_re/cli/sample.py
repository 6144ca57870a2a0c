"""`tati-sample`: sample the posterior of a network, or resume a run."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tati_re.cli.arguments import Parser, entry_point, loading, make_parser
from tati_re.cli.run import add_trust, refuse_trust, start, with_config
from tati_re.core.errors import CertificateWarning, refuse_if
from tati_re.options.flags import flag
from tati_re.options.make import SAMPLE, Options
from tati_re.options.trust import CODE, WRITTEN

_WORKERS = ("workers", "cluster", "worker_gpus")
_HANDED_ON = (
    "data",
    "test_data",
    *CODE,
    *WRITTEN,
    "requeue_signal",
    "require_certificate",
    *_WORKERS,
)
BESIDE_RESUME = ["resume", "num_steps", "max_time", "verbose", "quiet", "trust", *_HANDED_ON]


def _sample(options: Options) -> Any:
    from tati_re.simulation.simulation import Simulation

    with _certified(options.verbose):
        return Simulation.from_options(options).sample()


@contextmanager
def _certified(verbose: int) -> Iterator[None]:
    """Leaves out the warning of a failed certificate if the summary will print it."""
    with warnings.catch_warnings():
        if verbose > 0:
            warnings.simplefilter("ignore", CertificateWarning)
        yield


def _resume(typed: dict[str, Any]) -> int:
    allowed = "only --num-steps, --max-time, --requeue-signal, --require-certificate, --workers, --cluster, "
    allowed += (
        "--worker-gpus, --data or --test-data of files that moved, --trust, --verbose or --quiet"
    )
    for name in typed:
        refuse_if(
            name not in BESIDE_RESUME,
            f"{flag(name)} cannot be changed by --resume.",
            expected=allowed,
        )
    trust = typed.pop("trust", False)
    options = with_config(typed)
    loading(options.verbose)
    from tati_re.simulation.simulation import Simulation

    with _certified(options.verbose):
        run = Simulation.resume(
            options.resume,
            num_steps=options.num_steps if "num_steps" in options.explicit else None,
            trust=trust,
            max_time=options.max_time,
            verbose=options.verbose,
            **options.values_of(name for name in _HANDED_ON if name in typed),
        )
    return run.exit_status or 0


def parser_of_command() -> Parser:
    description = "Sample the posterior of a network, or resume an earlier run (--resume)."
    parser = make_parser("tati-sample", description, SAMPLE)
    add_trust(parser)
    return parser


def _body(argv: list[str]) -> int:
    parser = parser_of_command()
    typed = parser.parse(argv)
    if str(typed.get("resume", "none")).lower() != "none":
        return _resume(typed)
    refuse_trust(typed)
    return start(parser, argv, "sample", SAMPLE, _sample)


main = entry_point("tati-sample", _body, __name__, writes_files=True)
