"""Figures exist, have the lines and labels they should, and leave matplotlib's global state
alone.
"""

import sys
import time

import numpy as np
import pandas as pd
import pytest

from tati_re.core.errors import InputError
from tati_re.plotting import plot_classes, plot_traces
from tati_re.plotting.run import _moving_mean
from tati_re.prediction import ClassPrediction

ROWS, PARAMETERS = 200, 30


def table(walkers=4, kinetic=True, temperature=2.0):
    generator = np.random.default_rng(1)
    step, walker = np.meshgrid(10 * np.arange(1, ROWS + 1), np.arange(walkers), indexing="ij")
    draws = 0.5 * 2.0 * generator.chisquare(PARAMETERS, (3, step.size))
    columns = {
        "step": step.ravel(),
        "walker": walker.ravel(),
        "temperature": temperature,
        "potential": draws[0],
    }
    return pd.DataFrame(
        columns | {"kinetic_energy": draws[1] if kinetic else np.nan, "virial": draws[2]}
    )


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


def thick(axes):
    return [line for line in axes.get_lines() if line.get_linewidth() > 1]


def test_traces(tmp_path):
    figure = plot_traces(table(), PARAMETERS, num_burnin_steps=500, path=tmp_path / "traces.png")
    assert is_png(tmp_path / "traces.png")
    potential, kinetic, configurational = figure.axes
    assert [line.get_label() for line in thick(potential)] == [f"walker {k}" for k in range(4)]
    assert potential.get_ylabel() == "potential U"
    assert len(potential.patches) == 1, "burn-in is shaded"
    assert potential.patches[0].get_extents().width > 0
    assert "p·p / P" in kinetic.get_ylabel()
    assert "θ·∇U / P" in configurational.get_ylabel()
    assert configurational.get_xlabel() == "step"
    for axes in (kinetic, configurational):
        target, mean = axes.get_lines()
        assert set(target.get_ydata()) == {2.0}
        assert mean.get_xdata()[0] == 510, "the mean begins after the burn-in"
        assert len(axes.collections) == 1, "the band"
    running = kinetic.get_lines()[1].get_ydata()
    rows = table()
    kept = rows[rows["step"] > 500]
    assert running[-1] == pytest.approx(2 * kept["kinetic_energy"].mean() / PARAMETERS)


def test_traces_of_other_runs():
    assert len(plot_traces(table(kinetic=False), PARAMETERS).axes) == 2, "no momenta"
    fit = plot_traces(table(temperature=np.nan), PARAMETERS)
    assert len(fit.axes) == 1, "an optimizer has no temperature"
    assert not fit.axes[0].patches, "no burn-in, nothing shaded"
    many = plot_traces(table(walkers=12), PARAMETERS).axes[0]
    assert len(thick(many)) == 12
    assert [text.get_text() for text in many.get_legend().get_texts()] == ["12 walkers"]
    assert plot_traces(table(walkers=1), PARAMETERS).axes[0].get_legend() is None
    short = table()
    assert len(plot_traces(short[short["step"] <= 30], PARAMETERS).axes) == 1, (
        "too few rows for a temperature"
    )
    with pytest.raises(InputError, match="no rows"):
        plot_traces(table().head(0), PARAMETERS)


def of_probabilities(values, labels):
    classes = np.arange(values.shape[1])
    of_draws = {
        "num_draws": 1,
        "effective_draws": 1.0,
        "level": 0.9,
        "draw_losses": None,
        "walker": None,
        "weight": None,
    }
    return ClassPrediction(
        **of_draws,
        probabilities=values,
        std=values * 0,
        lower=None,
        upper=None,
        expected_entropy=np.zeros(len(values)),
        labels=labels,
        class_values=classes,
        draw_accuracy=None,
    )


def test_calibration(tmp_path):
    generator = np.random.default_rng(2)
    logits = generator.standard_normal((300, 5))
    labels = generator.integers(0, 5, 300)
    logits[np.arange(300), labels] += 2.0
    sharp, blunt = (
        np.exp(k * logits) / np.exp(k * logits).sum(axis=1, keepdims=True) for k in (3.0, 1.0)
    )
    found = {
        "optimum": of_probabilities(sharp, labels),
        "posterior average": of_probabilities(blunt, labels),
    }
    figure = plot_classes(found, path=tmp_path / "calibration.png")
    assert is_png(tmp_path / "calibration.png")
    reliability, counts, upper, lower = figure.axes
    assert len(thick(reliability)) == len(reliability.collections) == 2, "a curve and a band each"
    names = [text.get_text() for text in reliability.get_legend().get_texts()]
    assert names[0].startswith("optimum, calibration error 0.")
    assert names[1].startswith("posterior average, calibration error 0.")
    assert counts.get_xlabel().startswith("confidence")
    assert sum(bar.get_height() for bar in counts.patches) == 600, (
        "every example of both sets is in a bin"
    )
    wrong = int((logits.argmax(axis=1) != labels).sum())
    for axes in (upper, lower):
        words = [text.get_text() for text in axes.get_legend().get_texts()]
        assert words == [f"right ({300 - wrong})", f"wrong ({wrong})"]
        assert [histogram.get_data().values.sum() for histogram in axes.patches] == [
            300 - wrong,
            wrong,
        ]
    assert lower.get_xlabel() == "predictive entropy (nats)"


def test_calibration_of_two_classes_without_a_wrong_prediction():
    probabilities = np.array([[0.1, 0.9], [0.9, 0.1], [0.0, 1.0]])
    figure = plot_classes({"one": of_probabilities(probabilities, np.array([1, 0, 1]))})
    assert [text.get_text() for text in figure.axes[2].get_legend().get_texts()] == [
        "right (3)",
        "wrong (0)",
    ]


def test_bad_paths(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.png"):
        plot_traces(table(), PARAMETERS, path=tmp_path / "traces.pdf")
    with pytest.raises(InputError, match=r"Cannot write .*traces\.png: No such file"):
        plot_traces(table(), PARAMETERS, path=tmp_path / "missing" / "traces.png")


def test_global_state_is_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot_traces(table(), PARAMETERS)
    assert dict(matplotlib.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_a_moving_mean_takes_no_time_of_its_window():
    """A million rows took 80 seconds of the processor when each window was summed anew."""
    values = 1e6 + np.random.default_rng(0).normal(size=1000)
    steps, smooth = _moving_mean(np.arange(10, 10010, 10), values, 17)
    kernel = np.full(17, 1 / 17)
    np.testing.assert_allclose(smooth, np.convolve(values, kernel, "valid"), rtol=1e-14)
    np.testing.assert_allclose(
        steps, np.convolve(np.arange(10, 10010, 10), kernel, "valid"), rtol=1e-14
    )
    began = time.process_time()
    _moving_mean(np.arange(10**6), np.ones(10**6), 10**6 // 60)
    assert time.process_time() - began < 5.0


def test_traces_break_where_a_walker_is_elsewhere():
    """Lines once joined the rows before and after the time at other temperatures; a walker of few
    rows had its way with the moving means of all.
    """
    rows = table(walkers=3, kinetic=False)
    away = (rows["step"] > 500) & (rows["step"] <= 1500) & (rows["walker"] == 0)
    few = (rows["walker"] == 2) & ~rows["step"].isin((100, 110, 900))
    panel = plot_traces(rows[~away & ~few], PARAMETERS).axes[0]
    for line in panel.get_lines():
        steps, values = (np.asarray(part, float) for part in line.get_data())
        known = np.flatnonzero(np.isfinite(steps + values))
        joined = np.diff(known) == 1
        longest = np.diff(steps[known])[joined].max()
        assert longest <= 20, "no line leads over steps at which the walker was not there"
    means = [line for line in thick(panel) if line.get_label() == "walker 1"]
    assert len(means[0].get_xdata()) == ROWS - 2, "a moving mean of three rows"
    assert [line.get_marker() for line in thick(panel)][2] == ".", "a row by itself is a point"


def test_one_value_that_is_no_number_leaves_the_others():
    """A moving mean ended at the first of them; a single row was a line of one point, which is not
    seen.
    """
    for hole in (np.nan, np.inf):
        values = np.random.default_rng(3).normal(5.0, 1.0, 600)
        values[100] = hole
        steps, means = _moving_mean(np.arange(600), values, 10)
        assert np.isnan(means).sum() == 10 and np.isnan(means[91:101]).all()
        np.testing.assert_allclose(means[101], values[101:111].mean())
        assert steps[101] == 105.5
    single = plot_traces(table(walkers=1).head(1), PARAMETERS).axes[0].get_lines()[0]
    assert single.get_marker() == "."


def test_a_temperature_study_has_its_words_beside_its_lines():
    """The note on rough errors was cut off at both ends, and the legend lay on the lines."""
    from tati_re.plotting import plot_temperatures

    names = ("train_loss", "validation_loss", "test_loss", "test_accuracy")
    frame = pd.DataFrame(
        {
            "temperature": [0.1, 1.0, 3.0],
            "average_loss": 0.5,
            "average_accuracy": 0.7,
            "short": True,
        }
    )
    frame = frame.assign(
        **{name: 0.4 for name in names}, **{f"{name}_error": 0.1 for name in names}
    )
    figure = plot_temperatures(frame)
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1 - 3
        assert axes.get_legend().get_window_extent().x0 >= 0
    note = figure.axes[-1].xaxis.label.get_window_extent()
    assert note.x0 >= 0 and note.x1 <= figure.bbox.width
