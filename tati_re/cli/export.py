"""`tati-export`: a few draws of a run, or one network, as one file that predicts without it."""

from pathlib import Path
from typing import Any

from tati_re.cli.arguments import Parser, entry_point, flags_named, loading, number_typed
from tati_re.core.errors import InputError, refuse_if
from tati_re.shipping.forms import ENDINGS, TATI

ALL = "all"


def parser_of_command() -> Parser:
    description = (
        "Compress the posterior of a run to a few weighted draws and write them as one file. "
        "tati-predict and Keras read it. The loss against all draws is printed in nats a row."
    )
    parser = Parser("tati-export", "tati-export RUN [options]", description)
    text = "a run folder of tati-sample, or a .tati file to write in another form"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=text)
    text = "number of draws that stay, or all (default 16)"
    parser.add_argument("--members", metavar="N", help=text)
    text = "train one network to predict like all draws, in place of choosing draws"
    parser.add_argument("--distil", action="store_true", help=text)
    text = "units of the hidden layers of the distilled network (default 64 64 64)"
    parser.add_argument("--hidden", nargs="*", metavar="N", help=text)
    text = (
        "nats a row that may be lost; a larger loss is a warning (default 0.01, with --distil 0.05)"
    )
    parser.add_argument("--tolerance", metavar="X", help=text)
    text = "tati, keras (one .keras file without code), savedmodel (a folder) or npz (default tati)"
    parser.add_argument("--to", metavar="FORM", help=text)
    text = "levels of the quantiles that a Keras model predicts (default 0.05 0.5 0.95)"
    parser.add_argument("--quantiles", nargs="*", metavar="X", help=text)
    text = "inputs like those to come, for the choice of draws: as --data of tati-predict (default: training rows)"
    parser.add_argument("--data", metavar="FILE", help=text)
    text = "where to write (default: the name of the run, in the current folder)"
    parser.add_argument("--output", metavar="PATH", help=text)
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    return parser


def _body(argv: list[str]) -> None:
    typed = parser_of_command().parse(argv)
    names = typed.get("runs", [])
    refuse_if(not names, "tati-export needs a run folder.", expected="tati-export RUN")
    problem = "tati-export writes one run at a time."
    refuse_if(len(names) > 1, problem, ", ".join(names), "tati-export RUN")
    form = typed.get("to", TATI)
    refuse_if(form not in ENDINGS, "--to has an unknown value.", form, ", ".join(ENDINGS))
    source = Path(names[0])
    path = Path(typed.get("output") or source.absolute().stem + ENDINGS[form])
    there = path.exists() and not typed.get("overwrite")
    refuse_if(there, f"{path} is there already.", expected="--overwrite, or another --output")
    choices = _choices(typed)
    levels = [number_typed("quantiles", text, float, 0) for text in typed.get("quantiles", ())]
    options = {"quantiles": tuple(levels)} if "quantiles" in typed else {}
    loading(not typed.get("quiet"), f"Reading {source}")
    with flags_named(("members", "tolerance", "quantiles", "hidden")):
        predictor = _predictor(source, choices, typed.get("data"), bool(typed.get("distil")))
        predictor.export(path, form, overwrite=bool(typed.get("overwrite")), **options)
    if not typed.get("quiet"):
        print(predictor)
        print(f"written: {path}")


def _choices(typed: dict[str, Any]) -> dict[str, Any]:
    """How many members or hidden units, and the loss that may be."""
    choices: dict[str, Any] = {}
    distils = bool(typed.get("distil"))
    problem = "--members chooses draws, and --distil trains one network."
    refuse_if(distils and "members" in typed, problem, expected="one of them")
    problem = "--hidden is the size of a distilled network."
    refuse_if("hidden" in typed and not distils, problem, expected="--distil --hidden 64 64 64")
    if "hidden" in typed:
        units = [number_typed("hidden", text, int, 1) for text in typed["hidden"]]
        choices["hidden"] = tuple(units)
    if "members" in typed:
        every = typed["members"] == ALL
        choices["members"] = None if every else number_typed("members", typed["members"], int, 1)
    if "tolerance" in typed:
        choices["tolerance"] = number_typed("tolerance", typed["tolerance"], float, 0)
    return choices


def _predictor(source: Path, choices: dict[str, Any], data: str | None, distils: bool) -> Any:
    from tati_re.launch.run import load
    from tati_re.prediction.inputs import read_inputs
    from tati_re.shipping.predictor import Predictor

    if source.suffix == ENDINGS[TATI]:
        if choices or data is not None or distils:
            problem = "The members of a .tati file are chosen already."
            expected = "a run folder, or no --members, --distil, --tolerance, --data"
            raise InputError(problem, str(source), expected)
        return Predictor.load(source)
    run = load(source)
    inputs = None if data is None else read_inputs(data, run)[0]
    reduce = run.distil if distils else run.compress
    return reduce(**choices, inputs=inputs)


main = entry_point("tati-export", _body, __name__, writes_files=True)
