"""`tati-predict`: predict with the average over the draws or fits of a run, and score it."""

import shlex
from pathlib import Path
from typing import Any

from tati_re.cli.arguments import Parser, entry_point, flags_named, loading, number_typed
from tati_re.cli.failures import PRINTS_RESULT
from tati_re.core.errors import InputError, refuse_if
from tati_re.options.trust import TRUST
from tati_re.shipping.forms import ENDINGS, TATI

SUFFIX = ENDINGS[TATI]
"""Ending of the files of predictors."""
NUMBERS = {"interval": float, "rung": int, "burnin": int, "thin": int, "seed": int}


def parser_of_command() -> Parser:
    description = (
        "Predict with the average over a run's posterior draws, or over its fits if they predict "
        "better; write scores, uncertainties and figures."
    )
    parser = Parser("tati-predict", "tati-predict RUN... [options]", description)
    text = "run folders of tati-sample, averaged if several; or a .tati file of tati-export, then a file of inputs"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=text)
    text = "what to predict: .csv, .txt, .npy, .npz, ... or a built-in name (default: the test set of the run's data)"
    parser.add_argument("--data", metavar="FILE", help=text)
    text = "character encoding of --data, such as latin-1 (default: the encoding of the run's data)"
    parser.add_argument("--encoding", metavar="NAME", help=text)
    parser.add_argument("--optimum", metavar="FOLDER", help="a tati-optimize run to compare with")
    text = "tati-optimize runs whose walkers form an ensemble to compare with"
    parser.add_argument("--ensemble", nargs="+", metavar="FOLDER", help=text)
    text = (
        "inputs unlike the training inputs, which the uncertainty should detect: given like "
        "--data, or noise"
    )
    parser.add_argument("--ood", metavar="FILE", help=text)
    parser.add_argument(
        "--interval", metavar="X", help="probability of the intervals (default 0.9)"
    )
    parser.add_argument(
        "--rung", metavar="N", help="rung of a ladder that stored all rungs (default 0, the target)"
    )
    parser.add_argument(
        "--burnin", metavar="N", help="steps to exclude (default: the run's own burn-in)"
    )
    parser.add_argument(
        "--thin",
        metavar="N",
        help="use every N-th stored position (default: fewer for many inputs)",
    )
    text = (
        "weights of the chains: equal, or stacking, by their leave-one-out density (default: "
        "the run's option)"
    )
    parser.add_argument("--weights", metavar="NAME", help=text)
    text = "loo: calibrate by leaving out training rows (default: the run's option)"
    parser.add_argument("--calibrate", metavar="NAME", help=text)
    parser.add_argument("--seed", metavar="N", help="seed of --ood noise (default 0)")
    text = (
        "loss and accuracy against temperature, for all rungs of a ladder or for runs at "
        "several temperatures"
    )
    parser.add_argument("--by-temperature", action="store_true", help=text)
    parser.add_argument("--trust", action="store_true", help=f"of the runs: {TRUST}")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="folder for tables and figures (default RUN/predictions)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files in it")
    return parser


def _body(argv: list[str]) -> None:
    typed: dict[str, Any] = parser_of_command().parse(argv)
    refuse_if(
        not typed.get("runs"), "tati-predict needs a run folder.", expected="tati-predict RUN"
    )
    first = typed["runs"][0]
    if first.endswith(SUFFIX) and not Path(first).is_dir():
        return _predicted_by_file(typed)
    _refuse_files(typed["runs"])
    for name, kind in NUMBERS.items():
        if name in typed:
            typed[name] = number_typed(name, typed[name], kind, 0)
    ignored = "seed" in typed and typed.get("ood") != "noise"
    refuse_if(
        ignored,
        "--seed applies only with --ood noise.",
        f"--seed {typed.get('seed')}",
        "both, or neither",
    )
    loading(not typed.get("quiet"))
    from tati_re.launch.run import load
    from tati_re.report.prediction import report_predictions, report_temperatures
    from tati_re.runs import files
    from tati_re.runs.lock import entries, writing
    from tati_re.simulation.simulation import Simulation

    runs = [load(name) for name in typed["runs"]]
    for run in runs if typed.get("trust") else ():
        load(run, model=Simulation.from_folder(run, trust=True, verbose=0).system.model)
    folder = Path(typed.get("output") or runs[0].folder / files.PREDICTIONS)
    report = report_temperatures if typed.get("by_temperature") else report_predictions
    with writing(folder), flags_named(NUMBERS):
        if folder.is_dir() and entries(folder) and not typed.get("overwrite"):
            problem = f"The folder {folder} is not empty."
            raise InputError(problem, expected="--overwrite, or --output with another folder")
        text = report(runs, folder, typed)
    if not typed.get("quiet"):
        print(text)


def _refuse_files(runs: list[str]) -> None:
    """Refuses a file among the run folders, most likely the inputs, which --data names."""
    run = "RUN" if Path(runs[0]).is_file() else shlex.quote(runs[0])
    for name in runs:
        expected = f"tati-predict {run} --data {shlex.quote(name)}, if these are the inputs"
        refuse_if(Path(name).is_file(), f"{name} is a file, not a run folder.", expected=expected)


def _predicted_by_file(typed: dict[str, Any]) -> None:
    """Predicts with the file of a predictor; without --output the table is printed as CSV."""
    known = {"runs", "data", "encoding", "interval", "output", "overwrite", "quiet"}
    if other := sorted({*typed} - known):
        problem = f"--{other[0].replace('_', '-')} belongs to run folders, not to a {SUFFIX} file."
        raise InputError(problem, expected="--data, --encoding, --interval, --output, --overwrite")
    path, *data = typed["runs"]
    data += [typed["data"]] if "data" in typed else []
    problem = f"{path} predicts one file of inputs at a time."
    refuse_if(len(data) != 1, problem, ", ".join(data) or "none", f"tati predict {path} new.csv")
    level = number_typed("interval", typed.get("interval", "0.9"), float, 0)
    from tati_re.prediction.inputs import read_inputs
    from tati_re.prediction.rows import with_names
    from tati_re.runs.csv_table import frame_text
    from tati_re.runs.lock import entries
    from tati_re.runs.storage import made
    from tati_re.shipping.predictor import Predictor

    predictor = Predictor.load(path)
    run = predictor.carried_run
    inputs, labels = read_inputs(data[0], run, typed.get("encoding"))
    prediction = predictor.predict(with_names(run, inputs), labels, interval=level)
    if "output" not in typed:
        PRINTS_RESULT.set(True)
        print(frame_text(prediction.frame()).decode(), end="")
        return
    folder = Path(typed["output"])
    is_occupied = folder.is_dir() and entries(folder) and not typed.get("overwrite")
    refuse_if(
        is_occupied, f"The folder {folder} is not empty.", expected="--overwrite, or another folder"
    )
    made(folder)
    prediction.write_csv(folder / "predictions.csv")
    if not typed.get("quiet"):
        print("\n".join(f"{name}: {value}" for name, value in prediction.score_lines()))
        print(f"written: {folder / 'predictions.csv'}")


main = entry_point("tati-predict", _body, __name__, writes_files=True)
