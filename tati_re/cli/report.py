"""`tati-report`: one HTML page about runs."""

from tati_re.cli.arguments import Parser, entry_point, flags_named, loading, number_typed
from tati_re.core.errors import refuse_if
from tati_re.options.flags import flag

NUMBERS = {
    "burnin": (0, "steps to exclude; default: the run's own burn-in"),
    "thin": (1, "keep every N-th row; default 1"),
}


def parser_of_command() -> Parser:
    description = (
        "Write one self-contained HTML page about runs: warnings with advice, the model and data, traces, averages, "
        "temperatures, ladder and bias. Figures of other commands in the run folders are included."
    )
    parser = Parser("tati-report", "tati-report RUN [RUN ...] [options]", description)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders; runs in progress too")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="the page to write, .html; default report.html in the run folder",
    )
    text = "further folders whose figures are included, such as a landscape folder"
    parser.add_argument("--figures", nargs="+", metavar="DIR", help=text)
    for name, (_, text) in NUMBERS.items():
        parser.add_argument(flag(name), dest=name, metavar="N", help=text)
    return parser


def _body(argv: list[str]) -> None:
    typed = parser_of_command().parse(argv)
    refuse_if(
        not typed.get("runs"),
        "tati-report needs a run folder.",
        expected="tati-report RUN [RUN ...]",
    )
    chosen = {
        n: number_typed(n, typed[n], least=least) for n, (least, _) in NUMBERS.items() if n in typed
    }
    loading(not typed.get("quiet"), f"Reading {', '.join(typed['runs'])}")
    from tati_re.report import write_report

    with flags_named((*NUMBERS, "figures")):
        path = write_report(typed["runs"], typed.get("output"), typed.get("figures", ()), **chosen)
    if not typed.get("quiet"):
        print(f"written: {path}")


main = entry_point("tati-report", _body, __name__, writes_files=True)
