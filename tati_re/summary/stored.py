"""What was computed of a run before and stored in its folder: scores, weights, calibration."""

from tati_re.prediction.calibrating import stored_calibration
from tati_re.prediction.held_out import comparison_notes, stored_comparison
from tati_re.prediction.held_out_table import LABEL_WIDTH, SCORES, table_lines
from tati_re.prediction.leave_one_out import stored_leave_one_out
from tati_re.prediction.stacking import stored_stacking
from tati_re.prediction.streamed import streamed_lines
from tati_re.runs.run import RunFiles
from tati_re.summary.facts import RunFacts
from tati_re.summary.told import NOTHING, Told

LOO = "PSIS-LOO"
FILES = "files"


def leave_one_out(facts: RunFacts, _thin: int) -> Told:
    """The estimate of `Run.loo` that the folder contains.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    loo = stored_leave_one_out(facts.run)
    if loo is None:
        return NOTHING
    notes = []
    if loo.unreliable:
        notes.append(
            f"PSIS-LOO: {loo.unreliable} of {len(loo.elpd)} examples have a "
            f"Pareto k above {loo.largest_k:.2g}. These rows are highly "
            "influential, and the elpd estimate is unreliable."
        )
    return Told(notes, [(LOO, str(loo))])


def streamed(facts: RunFacts, _thin: int) -> Told:
    """The scores of predictions that the run accumulated while it sampled.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    if not facts.options.stream_predictions:
        return NOTHING
    return Told([], streamed_lines(facts.run))


def stacking(facts: RunFacts, _thin: int) -> Told:
    """The weights of the chains.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    stacked = stored_stacking(facts.run)
    return NOTHING if stacked is None else Told([], [("stacking of the chains", str(stacked))])


def calibration(facts: RunFacts, _thin: int) -> Told:
    """The temperature or the scale that calibrates predictions.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    calibrated = stored_calibration(facts.run)
    return NOTHING if calibrated is None else Told([], [("calibration", str(calibrated))])


def comparison(facts: RunFacts, _thin: int) -> Told:
    """The scores of the posterior and of the fits it began with.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    return Told([], comparison_pairs(facts.run))


def comparison_pairs(run: RunFiles) -> list[tuple[str, str]]:
    """The scores of the posterior and of the fits it began with, as label and value of each line."""
    frame = stored_comparison(run)
    if frame is None:
        return []
    rows = table_lines(frame, tuple(SCORES), ())
    pairs = [(line[:LABEL_WIDTH].rstrip(), line[LABEL_WIDTH:]) for line in rows]
    return pairs + [("  note", note) for note in comparison_notes(run)]


def files_of_run(facts: RunFacts, _thin: int) -> Told:
    """The names of the files in the folder.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    names = sorted(path.name for path in facts.run.folder.iterdir() if path.is_file())
    return Told([], [(FILES, ", ".join(names))])
