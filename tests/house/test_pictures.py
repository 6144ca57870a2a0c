"""Results draw themselves; bands hold whole curves as often as they say; what is drawn is what was
found.
"""

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

import tati_re
from tati_re.core.errors import InputError
from tati_re.landscape.scan import Landscape
from tati_re.plotting.bands import Calibrated, draw_ranks, independent, rank_band, uniform_band
from tati_re.plotting.calibration import plot_classes
from tati_re.plotting.figure import new_figure
from tati_re.plotting.landscape_files import write_vtk
from tati_re.prediction.results import ClassPrediction, RegressionPrediction
from tests.made_runs import made_run

ROOMY = dict(
    num_draws=50, effective_draws=50.0, level=0.9, draw_losses=None, walker=None, weight=None
)


def held(curves, low, high):
    return ((curves >= low) & (curves <= high)).all(axis=1).mean()


def test_bands_hold_whole_curves():
    """95 % of 2,000 curves, with 5.5 standard errors of it and of the band's own simulation; a band
    point by point, the wrong one, holds 46 to 53 % of them.
    """
    generator = np.random.default_rng(5)
    for count in (30, 300):
        places, low, high = uniform_band(count)
        found = (generator.random((2000, count, 1)) <= places).mean(axis=1)
        assert held(found, low, high) == pytest.approx(0.95, abs=0.032)
        wrong = np.quantile(found, [0.025, 0.975], axis=0)
        assert held(found, *wrong) < 0.75
        assert held(generator.beta(2, 2, (200, 300, 1)) <= places, 0, 1) == 1
    shifted = (generator.beta(1.5, 1, (200, 300, 1)) <= places).mean(axis=1)
    assert held(shifted, low, high) < 0.05, "power"


def test_ranks_of_correlated_chains():
    """Chains of one law are outside 3 times in 60, at most 12 (5.5 standard errors); hardly
    thinned, most are.
    """
    from scipy.signal import lfilter

    generator = np.random.default_rng(6)
    outside = {True: 0, False: 0}
    for _ in range(60):
        noise = generator.standard_normal((4, 500))
        noise[:, 0] /= np.sqrt(1 - 0.81)
        chains = lfilter([1.0], [1.0, -0.9], noise, axis=1)
        for thinned in outside:
            draws = independent(chains) if thinned else chains[:, ::2]
            places, low, high = rank_band(*draws.shape)
            ranks = (rankdata(draws).reshape(draws.shape) - 0.5) / draws.size
            found = (ranks[:, :, None] <= places).mean(axis=1)
            outside[thinned] += not ((found >= low) & (found <= high)).all()
    assert outside[True] <= 12 and outside[False] >= 24


def test_calibration_by_isotonic_regression():
    generator = np.random.default_rng(7)
    stated = 0.5 + 0.5 * generator.random(300)
    one = Calibrated(stated)
    low, high = one.band()
    outside = [
        not held(one.curve(generator.random(300) < stated)[None], low, high) for _ in range(400)
    ]
    assert np.mean(outside) == pytest.approx(0.05, abs=0.065)
    # Too sure: it happens half as often as said beyond 1/2.
    wrong = one.curve(generator.random(300) < 0.5 + 0.5 * (stated - 0.5))
    assert not held(wrong[None], low, high)
    exact = Calibrated(np.array([0.2, 0.4, 0.6, 0.8])).curve(np.array([0.0, 1.0, 0.0, 1.0]))
    np.testing.assert_allclose(exact[[0, 50, -1]], [0.0, 0.5, 1.0], atol=0.02)
    assert len(Calibrated(np.full(3, 0.9)).band()[0]) == 100


def test_ranks_of_draws_that_are_equal(monkeypatch):
    """An accuracy takes few values: 40 pairs of one law leave the band 2 times, at most 9 (5.5
    standard errors); with shared ranks nearly always. Another law is still seen.
    """
    monkeypatch.setattr(
        import_module("tati_re.plotting.bands"), "independent", lambda values: values
    )
    generator = np.random.default_rng(8)

    def outside(values, shared=False):
        axes = new_figure(4, 3).subplots()
        draw_ranks(axes, values)
        places, low, high = rank_band(*values.shape)
        found = [line.get_ydata() + places for line in axes.get_lines()[:-1]]
        if shared:
            ranks = (rankdata(values).reshape(values.shape) - 0.5) / values.size
            found = (ranks[:, :, None] <= places).mean(axis=1)
        return any(((each < low - 1e-9) | (each > high + 1e-9)).any() for each in found)

    same = [generator.binomial(3, 0.8, (2, 100)).astype(float) for _ in range(40)]
    assert sum(map(outside, same)) <= 9
    assert sum(outside(each, shared=True) for each in same) > 30
    other = np.stack([generator.binomial(3, 0.8, 100), generator.binomial(3, 0.4, 100)]).astype(
        float
    )
    assert outside(other)


def test_a_start_far_away_leaves_the_panel(tmp_path):
    """What is sampled fills a third of its panel or more, whatever the burn-in was."""
    found = chains()["potential"]
    found[:, :3] += 1e5
    axes = made_run(tmp_path / "far", {"potential": found}, burnin=500).plot("potential").axes[0]
    low, high = axes.get_ylim()
    late = found[:, 60:]
    assert low < late.min() and late.max() < high and np.ptp(late) > 0.3 * (high - low)


def chains(walkers=4, rows=300, shift=0.0):
    values = np.random.default_rng(1).chisquare(9, (walkers, rows))
    values[-1] += shift
    return {"potential": values, "loss": 0.1 * values, "accuracy": np.full_like(values, 0.9)}


def test_a_run_draws_itself(tmp_path):
    run = made_run(tmp_path / "run", chains(), burnin=500)
    figure = run.plot(path=tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert figure._repr_png_().startswith(b"\x89PNG"), "in notebooks that never imported pyplot"
    assert len(figure.axes) == 6, "potential and loss; an accuracy that rests is not drawn"
    trace, ranks = figure.axes[:2]
    assert len(ranks.get_lines()) == 5 and len(ranks.collections) == 1, (
        "four walkers, zero, and the band"
    )
    assert "250 independent draws" in ranks.get_xlabel() and trace.get_ylabel() == "potential U"
    assert len(run.plot("potential", burnin=0, thin=3).axes) == 3
    band = ranks.collections[0].get_paths()[0].vertices[:, 1]
    assert max(np.abs(line.get_ydata()).max() for line in ranks.get_lines()) < abs(band).max()
    stuck = made_run(tmp_path / "stuck", chains(shift=5.0)).plot("potential").axes[1]
    assert (
        np.abs(stuck.get_lines()[3].get_ydata()).max()
        > 2 * abs(stuck.collections[0].get_paths()[0].vertices[:, 1]).max()
    )
    single = made_run(tmp_path / "single", chains(walkers=1)).plot("potential")
    assert len(single.axes[1].get_lines()) == 3, "its halves"
    assert len(made_run(tmp_path / "short", chains(rows=5)).plot().axes) == 2, "traces alone"
    assert (
        "too short for ranks"
        in made_run(tmp_path / "few", chains(rows=9)).plot("loss").axes[1].texts[0].get_text()
    )
    assert "does not change" in run.plot("accuracy").axes[1].texts[0].get_text()
    with pytest.raises(InputError, match=r"no observable acuracy\. Did you mean 'accuracy'"):
        run.plot("acuracy")


def values(columns=1, known=True):
    generator = np.random.default_rng(2)
    inputs = generator.uniform(-1, 1, (80, columns))
    mean = inputs[:, :1] * 2
    wide = np.full_like(mean, 0.3)
    parts = dict(
        mean=mean, parameter_std=wide, noise_std=wide, mean_lower=mean - 0.5, mean_upper=mean + 0.5
    )
    parts |= dict(lower=mean - 0.7, upper=mean + 0.7, targets=mean + 0.3 if known else None)
    pit = generator.random(mean.shape) if known else None
    return RegressionPrediction(
        **ROOMY, **parts, log_density=None, crps=None, pit=pit, inputs=inputs
    )


def classes(columns=1, labels=True):
    generator = np.random.default_rng(3)
    inputs = generator.uniform(-1, 1, (80, columns))
    p = 1 / (1 + np.exp(-4 * inputs[:, 0]))
    p = np.stack([1 - p, p], axis=1)
    known = (generator.random(80) < p[:, 1]).astype(int) if labels else None
    parts = dict(
        probabilities=p,
        std=0.1 * p,
        lower=0.9 * p,
        upper=np.minimum(1.1 * p, 1),
        expected_entropy=np.zeros(80),
    )
    return ClassPrediction(
        **ROOMY, **parts, labels=known, class_values=np.arange(2), draw_accuracy=None, inputs=inputs
    )


def test_predictions_draw_themselves(tmp_path):
    figure = values().plot(path=tmp_path / "values.png")
    assert (tmp_path / "values.png").exists() and len(figure.axes) == 3
    assert figure.axes[0].get_xlabel() == "input" and "PIT" in figure.axes[2].get_xlabel()
    assert values(3).plot().axes[0].get_xlabel() == "observed"
    assert values(3).plot(along=2).axes[0].get_xlabel() == "input 2"
    assert len(values(known=False).plot().axes) == 1
    words = [axes.get_xlabel() for axes in classes().plot().axes]
    assert (words[0] == "input 0" and words[-1].startswith("confidence")) or "entropy" in words[1]
    assert (
        len(classes(2).plot().axes) == 3 and len(classes(2, labels=False).plot(along=1).axes) == 2
    )
    for one in (values(3), classes(3)):
        with pytest.raises(InputError, match=r"no such column\. Received: 3. Expected: 0 to 2"):
            one.plot(along=3)
    places = dataclasses.replace(classes(2, labels=False), places=2)
    with pytest.raises(
        InputError,
        match=r"no such column. Received: 0. Expected: no along, as the inputs are not drawn.",
    ):
        places.plot(along=0)


def test_many_classes_and_outputs_fit_their_panels():
    """The legend of ten classes once pushed their panel to a sixth of the figure; a second output
    was not drawn.
    """
    generator = np.random.default_rng(4)
    x = np.sort(generator.uniform(-1, 1, (60, 1)), axis=0)
    for count in (10, 30):
        p = generator.dirichlet(np.ones(count), 60)
        parts = dict(
            probabilities=p, std=p, lower=p, upper=p, expected_entropy=np.zeros(60), inputs=x
        )
        names, labels = np.arange(count), generator.integers(0, count, 60)
        one = ClassPrediction(
            **ROOMY, **parts, labels=labels, class_values=names, draw_accuracy=None
        )
        figure = one.plot()
        figure.draw_without_rendering()
        panel = figure.axes[0]
        shown = {(line.get_color(), line.get_linestyle()) for line in panel.get_lines()}
        assert len(shown) == min(count, 12), "no two look the same"
        assert panel.get_window_extent().width > 0.2 * figure.bbox.width
        assert panel.get_legend().get_window_extent().x0 >= 0
        assert (f"12 likeliest of {count}" in panel.get_ylabel()) == (count > 12)
        # The picture and the table say the same number.
        legends = [
            axes.get_legend().get_texts()[0].get_text() for axes in figure.axes if axes.get_legend()
        ]
        assert f"posterior average, calibration error {one.calibration().error:.3f}" in legends
    mean = np.hstack([x, -x])
    wide = np.full_like(mean, 0.1)
    parts = dict(
        mean=mean, parameter_std=wide, noise_std=wide, mean_lower=mean - 0.1, mean_upper=mean + 0.1
    )
    parts |= dict(
        lower=mean - 0.2,
        upper=mean + 0.2,
        targets=mean,
        log_density=None,
        crps=None,
        pit=None,
        inputs=x,
    )
    figure = RegressionPrediction(**ROOMY, **parts).plot()
    figure.draw_without_rendering()
    panel = figure.axes[0]
    np.testing.assert_allclose([line.get_ydata() for line in panel.get_lines()], mean.T)
    assert (
        panel._left_title.get_window_extent().y0 >= panel.get_legend().get_window_extent().y1 - 5
    ), "a title above it"


@pytest.mark.parametrize("count", [1, 3])
def test_the_title_of_other_inputs_stands_above_their_legend(count):
    """ "posterior average, AUROC 0.485" stood on top of "test (240)"."""
    predictions = {
        f"posterior average {k}" if k else "posterior average": classes() for k in range(count)
    }
    figure = plot_classes(predictions, predictions)
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if "AUROC 0.500" in axes.get_title(loc="left")]
    assert len(panels) == count
    for panel in panels:
        title, legend = (
            panel._left_title.get_window_extent(),
            panel.get_legend().get_window_extent(),
        )
        assert not title.overlaps(legend) and title.y1 <= figure.bbox.height


def test_predictions_print_a_table():
    for one, word in ((values(), "coverage"), (classes(), "calibration error")):
        text = str(one)
        assert (
            word in text
            and "inputs" in text
            and len(text.splitlines()) < 25
            and max(map(len, text.splitlines())) < 130
        )
        assert "<table" in one._repr_html_() and word in one._repr_html_()


RESULTS = (
    *(
        "analysis.alignment:Alignment",
        "analysis.covariance:Eigenpairs",
        "analysis.diffusion_map:DiffusionMap",
    ),
    *(
        "exploration.descent:StationaryPoint",
        "exploration.explorer:Exploration",
        "exploration.paths:Path",
    ),
    *(
        "landscape.gaussian:GaussianApproximation",
        "landscape.hessian:Density",
        "landscape.hessian:HessianEigenpairs",
    ),
    *(
        "landscape.inputspace:InputSpace",
        "landscape.scan:Landscape",
        "prediction.leave_one_out:LeaveOneOut",
    ),
    *("prediction.metrics:Calibration", "prediction.temperature_study:TemperatureStudy"),
)


@pytest.mark.parametrize("place", RESULTS)
def test_results_are_shown_in_a_screen(place):
    """Whatever is in them: a line a field with the range of its numbers, and one small table."""
    module, name = place.split(":")
    kind = vars(import_module(f"tati_re.{module}"))[name]
    example = {
        "DataFrame": pd.DataFrame({"first": np.arange(500.0), "second": "text"}),
        "Prediction": classes(),
    }
    example |= {
        "ndarray": np.arange(4000.0).reshape(500, 8),
        "list": [np.zeros(3000)] * 9,
        "float": 0.125,
        "int": 7,
    }
    example |= {"dict": {(1, 2): np.zeros(4000)}, "str": "a reason", "bool": False}
    found = {
        key: str(value).replace("pandas.", "").replace("np.", "")
        for key, value in kind.__annotations__.items()
    }
    given = {}
    for key, annotation in found.items():
        said = [word for word in example if word in annotation.split("[")[0].split("|")[0]]
        given[key] = example[said[0]] if said else ("c0", "c1")
    if kind.__name__ == "LeaveOneOut":
        given |= {key: np.arange(500.0) for key in ("example", "elpd", "pareto_k")}
    if kind.__name__ == "InputSpace":
        given["inputs"] = np.zeros((len(given["prediction"].probabilities), 2))
    one = kind(**given)
    lines = repr(one).splitlines()
    assert len(lines) < 35 and max(map(len, lines)) < 130 and "object at" not in repr(one)
    assert all(any(line.startswith(key.replace("_", " ")) for line in lines) for key in given)
    if "ndarray" in "".join(found.values()) and kind.__name__ not in ("LeaveOneOut", "InputSpace"):
        assert "500 x 8 numbers, 0 to 3999" in repr(one)
    assert "<table" in one._repr_html_() and len(one._repr_html_()) < 10_000


def test_a_ladder_draws_itself(tmp_path):
    run = made_run(tmp_path / "run", chains())
    text = "rung,temperature,likelihood_weight,acceptance,expected_acceptance,mean_potential\n"
    (run.folder / "ladder.csv").write_text(
        text + "0,1,1,0.4,0.5,10\n1,2,1,0.3,0.4,20\n2,4,1,,,40\n"
    )
    left, right = run.ladder.plot().axes
    assert "..." not in repr(run.ladder) and "mean_potential" in repr(run.ladder)
    assert [bar.get_height() for bar in left.patches] == [0.4, 0.3]
    assert list(right.get_lines()[0].get_xdata()) == [1, 2, 4]
    with pytest.raises(InputError, match="one rung"):
        type(run.ladder)(run.ladder.head(1)).plot()


def test_each_figure_is_found():
    """Each kind of result that draws itself has its function among those of `tati_re.plotting`."""
    files = Path(tati_re.__file__).parent.rglob("*.py")
    kinds = {kind for file in files for kind in re.findall(r'drawn\("(\w+)"', file.read_text())}
    assert {"evidence", "input_space", "run", "temperatures"} <= kinds
    for kind in kinds:
        assert callable(getattr(tati_re.plotting, f"plot_{kind}"))


def test_a_landscape_for_paraview(tmp_path):
    """A structured grid whose first coordinate is the fastest, and the trajectory as lines, a
    walker each.
    """
    first, second = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-2, 2, 4), indexing="ij")
    loss = (first**2 + 3 * second).ravel()
    excess = np.log(np.where(loss > loss.min(), loss - loss.min(), np.nan))
    table = pd.DataFrame(
        {"c0": first.ravel(), "c1": second.ravel(), "loss": loss, "ln_excess_loss": excess}
    )
    way = pd.DataFrame(
        {"step": [1, 1, 2, 2], "walker": [0, 1, 0, 1], "c0": 0.5, "c1": [0.1, 0.2, 0.3, 0.4]}
    )
    way = way.assign(loss=1.0, ln_excess_loss=0.0)
    found = Landscape(table, way, loss.min(), np.zeros(3), np.zeros((2, 3)), ("c0", "c1"))
    assert write_vtk(found, tmp_path) == ["landscape.vtk", "trajectory.vtk"]
    lines = (tmp_path / "landscape.vtk").read_text().splitlines()
    assert lines[3:6] == ["DATASET STRUCTURED_GRID", "DIMENSIONS 5 4 1", "POINTS 20 double"]
    points = np.array([line.split() for line in lines[6:26]], float)
    at = lines.index("SCALARS loss double 1") + 2
    np.testing.assert_allclose(
        points[:, 0] ** 2 + 3 * points[:, 1], np.array(lines[at : at + 20], float)
    )
    assert np.ptp(points[:, 2]) == pytest.approx(2.0), "as high as the first axis is wide"
    lines = (tmp_path / "trajectory.vtk").read_text().splitlines()
    assert lines[lines.index("LINES 2 6") + 1 :][:2] == ["2 0 1", "2 2 3"]
    assert found.plot(kind="contour", quantity="loss").axes[0].get_xlabel() == "c0"
    assert "<table" in found._repr_html_()
    with pytest.raises(InputError, match="two or three coordinates"):
        write_vtk(found._replace(names=("c0",)), tmp_path)


def test_all_outputs_of_many_examples_are_drawn():
    """Of 800 predictions of two outputs every fourth number was drawn: those of the first output
    alone.
    """
    mean = np.stack([np.linspace(0, 1, 800), np.linspace(100, 200, 800)], axis=1)
    parts = dict(
        mean=mean,
        parameter_std=mean,
        noise_std=None,
        mean_lower=mean,
        mean_upper=mean,
        lower=mean - 1,
    )
    parts |= dict(upper=mean + 1, log_density=None, crps=None, pit=None, inputs=np.zeros((800, 3)))
    for targets in (mean, None):
        panel = RegressionPrediction(**ROOMY, **parts, targets=targets).plot().axes[0]
        x, y = panel.containers[0].lines[0].get_data()
        assert (y > 50).sum() == (y < 50).sum() == 200
        assert x.max() == (mean[::4].max() if targets is not None else 796), (
            "the number of the input, not of the output"
        )


def test_legends_of_a_data_set_are_inside_the_figure(tmp_path):
    import pandas as pd

    import tati_re
    from tati_re.plotting import plot_points

    generator = np.random.default_rng(1)
    frame = pd.DataFrame(generator.normal(size=(60, 2)), columns=["a", "b"])
    frame["fruit"] = generator.choice(["apples and pears", "oranges", "water melons"], 60)
    data = tati_re.Simulation(data=frame, test_fraction=0.3, verbose=0).dataset
    figure = plot_points(data)
    figure.draw_without_rendering()
    panel = figure.axes[0]
    assert panel.get_legend().get_window_extent().x0 >= 0
    assert panel.get_window_extent().width > 0.6 * figure.bbox.width
