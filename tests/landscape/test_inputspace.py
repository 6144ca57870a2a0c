"""`tati-inputspace`: predictions over a grid of inputs are averages over the parameters, and the
figure is there.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import tati_re
from tati_re.cli import inputspace as command
from tati_re.core.errors import InputError
from tati_re.landscape import input_space
from tati_re.landscape.inputspace import read_inputs
from tati_re.plotting.figure import COLORS
from tati_re.plotting.inputs import plot_input_space
from tati_re.runs import files


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    options = {"data": "two_clusters", "dtype": "float64", "execution": "graph", "verbose": 0}
    sim = tati_re.Simulation(num_walkers=2, **options)
    sim.sample(num_steps=200, step_size=0.02, trajectory_every=10, output=str(folder / "sampled"))
    tati_re.Simulation(**options).fit(num_steps=20, output=str(folder / "fit"))
    return folder


def probability(parameters, points):
    """Of +1 under a squared error: sigmoid(2f / variance); the loss of signs is gaussian with
    variance 1 or a mean squared error, so that only its order is compared.
    """
    return points @ parameters[:2] + parameters[2]


def test_the_mean_over_all_parameters(runs, tmp_path):
    run = tati_re.load(runs / "sampled")
    space = input_space(run, "-4:4:9")
    assert space.inputs.shape == (81, 2) and space.prediction.num_draws == 40
    assert space.names == ("x1", "x2")
    other, walker = (input_space(run, "-4:4:9", walker=walker).prediction for walker in (0, 1))
    one = [input_space(run, "-4:4:9", which=[step], walker=1) for step in range(10, 201, 10)]
    probabilities = np.stack([each.prediction.probabilities for each in one])
    np.testing.assert_allclose(walker.probabilities, probabilities.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(walker.std, probabilities.std(axis=0), atol=1e-9)
    mean = (other.probabilities + walker.probabilities) / 2
    apart = (other.probabilities - walker.probabilities) / 2
    np.testing.assert_allclose(space.prediction.probabilities, mean, rtol=1e-9)
    variance = (other.std**2 + walker.std**2) / 2 + apart**2
    np.testing.assert_allclose(space.prediction.std**2, variance, atol=1e-9)
    assert np.abs(apart).max() > 1e-4, "the walkers differ"
    # The probability of the mean parameters is another number: that would be the wrong average.
    wrong = input_space(run, "-4:4:9", which="mean").prediction.probabilities
    assert np.abs(wrong - space.prediction.probabilities).max() > 1e-4
    table = space.frame()
    assert {"x1", "x2", "predicted", "p[1]", "std[1]", "mutual_information"} <= set(table)
    # A linear boundary, seen from the sign of each point.
    last = run.trajectory.iloc[-1, 4:7].to_numpy(float)
    final = input_space(run, "-4:4:9", which=[200], walker=1).frame()
    np.testing.assert_array_equal(final["predicted"] > 0, probability(last, space.inputs) > 0)
    figure = plot_input_space(space, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 20_000
    assert figure.axes[0].get_xlabel() == "x1" and len(figure.axes) == 4


def test_given_inputs_and_parameters(runs):
    points = np.array([[1.0, 1.0], [-3.0, 0.5]])
    space = input_space(runs / "sampled", inputs=points, parameters=np.array([1.0, 0.0, 0.0]))
    assert space.axes is None and space.frame()["predicted"].tolist() == [1, -1]
    assert space.prediction.num_draws == 1 and (space.prediction.std == 0).all()
    assert input_space(runs / "fit").prediction.num_draws == 1
    with pytest.raises(InputError, match="grid of one or two inputs"):
        plot_input_space(space)
    with pytest.raises(InputError, match="inputs were already given"):
        input_space(runs / "fit", "-1:1:3", inputs=points)


@pytest.mark.parametrize(
    ("loss", "curves"), [("gaussian", ["with noise", "mean"]), ("huber", ["mean"])]
)
def test_noise_is_drawn_where_the_loss_tells_it(tmp_path, loss, curves):
    x = np.linspace(-1, 1, 30)
    options = {"dtype": "float64", "execution": "graph", "seed": 1, "verbose": 0}
    sim = tati_re.Simulation(data=(x[:, None], x**2), loss=loss, **options)
    run = sim.sample(num_steps=20, step_size=0.01, trajectory_every=5, output=str(tmp_path / "run"))
    figure = plot_input_space(input_space(run, "-1:1:5"))
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == curves


def test_command(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main([str(runs / "sampled"), "--range=-4:4:9,-3:3:5", "--output", "a"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("45 inputs, 40 vectors of parameters\nclasses predicted: -1 on ")
    assert len(pd.read_csv("a/inputspace.csv")) == 45
    known = {file.name for file in files.FILES}
    assert {f"{files.INPUTSPACE}/{path.name}" for path in Path("a").iterdir()} <= known
    np.savetxt("points.csv", np.eye(2), delimiter=",", header="a,b", comments="")
    flags = [
        str(runs / "sampled"),
        "--inputs",
        "points.csv",
        "--which",
        "10",
        "20",
        "--walker",
        "0",
        "--quiet",
    ]
    assert command.main([*flags, "--output", "b"]) == 0
    assert (
        len(pd.read_csv("b/inputspace.csv")) == 2
        and not (tmp_path / "b" / "inputspace.png").exists()
    )


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "tati-inputspace needs a run folder."),
        (["RUN", "--which", "mena"], "--which has an unknown value. Received: mena."),
        (["RUN", "--which", "10", "x"], "--which has the wrong form."),
        (["RUN", "--range=1:0:3"], "--range has the wrong form."),
        (
            ["RUN", "--range=0:1:3,0:1:3,0:1:3"],
            "--range: one for each input is needed. Received: 3.",
        ),
        (["RUN", "--inputs", "no.csv"], "--inputs: the file does not exist."),
        (
            ["RUN", "--parameters", "no.csv", "--which", "mean"],
            "--which selects from the run's parameters.",
        ),
        (["RUN", "--thin", "0"], "--thin is out of range."),
        (["RUN", "--parameters", "no.csv"], "--parameters: there is no no.csv"),
    ],
)
def test_bad_input_is_one_line(runs, capsys, tmp_path, monkeypatch, argv, sentence):
    monkeypatch.chdir(tmp_path)
    status = command.main([str(runs / "sampled") if word == "RUN" else word for word in argv])
    err = capsys.readouterr().err
    assert status == 2 and err.startswith(f"error: {sentence}") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_columns_of_a_table_are_taken_by_name(runs, tmp_path):
    """In another order, and beside others; where no name is the run's, in order."""
    run, points = tati_re.load(runs / "sampled"), np.array([[1.0, 2.0], [-3.0, 0.5]])
    pd.DataFrame({"id": [7, 8], "x2": points[:, 1], "x1": points[:, 0]}).to_csv(
        tmp_path / "named.csv", index=False
    )
    pd.DataFrame({"a": points[:, 0], "b": points[:, 1]}).to_csv(
        tmp_path / "others.csv", index=False
    )
    np.savetxt(tmp_path / "none.csv", points, delimiter=",")
    for name in ("named", "others", "none"):
        np.testing.assert_array_equal(read_inputs(tmp_path / f"{name}.csv", run), points)


def test_points_have_the_colors_of_their_classes_and_all_are_seen(tmp_path):
    """Of data sorted by class the first 2,000 points were drawn, and classes had colors by the
    order they came in.
    """
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], (10, 1500, 1500))
    x = generator.normal(size=(len(labels), 2)) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[labels]
    sim = tati_re.Simulation(
        data=(x, labels), hidden=[3], num_walkers=2, execution="graph", verbose=0
    )
    run = sim.sample(num_steps=20, step_size=1e-4, trajectory_every=2, output=tmp_path / "run")
    space = input_space(run, "-4:8:9")
    left = plot_input_space(space).axes[0]
    drawn = {
        tuple(points.get_facecolor()[0][:3]): len(points.get_offsets())
        for points in left.collections
    }
    assert list(drawn.values()) == [5, 750, 750]
    assert list(drawn) == [to_rgb(color) for color in COLORS[:3]]
    image = left.get_images()[0].get_extent()
    np.testing.assert_allclose(
        image, [-4.75, 8.75, -4.75, 8.75]
    )  # the middle of a pixel is its point
    later = space._replace(examples=(x[10:], labels[10:]))
    points = plot_input_space(later).axes[0].collections[0]
    assert tuple(points.get_facecolor()[0][:3]) == to_rgb(COLORS[1]), (
        "of class 1, though none of class 0 is there"
    )


def test_a_figure_of_several_outputs_says_which_it_shows(tmp_path):
    generator = np.random.default_rng(0)
    for columns in (1, 2):
        x = generator.normal(size=(30, columns))
        data = (x, np.stack([x[:, 0], 100 * x[:, 0]], axis=1))
        sim = tati_re.Simulation(
            data=data, loss="gaussian", num_walkers=2, execution="graph", verbose=0
        )
        run = sim.sample(
            num_steps=20, step_size=1e-4, trajectory_every=2, output=tmp_path / f"run{columns}"
        )
        axes = plot_input_space(input_space(run, "-2:2:5")).axes
        words = (
            [axes[0].get_legend().get_texts()[-1].get_text()]
            if columns == 1
            else [one.get_ylabel() for one in axes]
        )
        assert "mean of output 0" in words


def test_draws_of_one_walker_count_by_their_weights(tmp_path):
    """Under a bias the draws of a walker that was named counted alike: a spread of 0.40 for 0.17 in
    one case.
    """
    sim = tati_re.Simulation(data="two_clusters", noise_std=1.0, execution="graph", verbose=0)
    options = {
        "bias": "well_tempered",
        "bias_factor": 20.0,
        "step_size": 0.02,
        "trajectory_every": 2,
    }
    run = sim.sample(num_steps=400, num_burnin_steps=100, output=tmp_path / "run", **options)
    assert run.run_info["weight"].nunique() > 1
    whole, one = (input_space(run, "-4:4:5", walker=walker).frame() for walker in (None, 0))
    np.testing.assert_array_equal(one.to_numpy(), whole.to_numpy())


def test_inputs_of_a_file_between_semicolons_and_a_grid_of_many_inputs(runs, tmp_path):
    """Columns go by their names, decimal commas are read; a grid that is too large says how
    large.
    """
    run = tati_re.load(runs / "sampled")
    (tmp_path / "a.csv").write_text("x2;x1\n0,5;-1,5\n2,0;1,0\n", encoding="utf-8-sig")
    assert read_inputs(tmp_path / "a.csv", run).tolist() == [[-1.5, 0.5], [1.0, 2.0]]
    with pytest.raises(
        InputError,
        match=r"grid of 2 inputs is too large\. Received: 2\.5e\+07\. Expected: at most 10,000,000",
    ):
        input_space(run, "-1:1:5000")
    with pytest.warns(
        UserWarning, match=r"^The grid has 100,489 inputs, each predicted with every draw\."
    ):
        assert len(input_space(run, "-1:1:317", which="mean").inputs) == 100_489


NAMES = ["age", "bmi", "bp", "s1", "s2"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Runs of five inputs: from a table, and from arrays whose data the folder does not name."""
    folder = tmp_path_factory.mktemp("wide")
    random = np.random.default_rng(0)
    inputs = random.normal(size=(40, 5)) * [1, 10, 1, 5, 1] + [0, 100, 3, 0, 50]
    targets = inputs[:, 0] + 0.1 * inputs[:, 1]
    frame = pd.DataFrame(inputs, columns=NAMES).assign(y=targets)
    frame.to_csv(folder / "five.csv", index=False)
    options = {
        "hidden": [],
        "num_walkers": 1,
        "test_fraction": 0.0,
        "dtype": "float64",
        "seed": 1,
        "verbose": 0,
    }
    steps = {"num_steps": 20, "step_size": 1e-4, "sampler": "BAOAB", "trajectory_every": 5}
    for name, more in {
        "table": {"data": str(folder / "five.csv")},
        "arrays": {"data": (inputs, targets)},
        "raw": {"data": (inputs, targets), "standardize": "none"},
    }.items():
        tati_re.Simulation(**more, **options).sample(output=str(folder / name), **steps)
    return folder, inputs


def test_of_many_inputs_two_vary_and_the_others_stay_at_their_means(wide):
    folder, inputs = wide
    space = input_space(folder / "table", "-1:1:3")
    assert space.along == (0, 1) and space.names == tuple(NAMES) and len(space.inputs) == 9
    np.testing.assert_array_equal(np.unique(space.inputs[:, 0]), [-1, 0, 1])
    np.testing.assert_allclose(space.inputs[:, 2:], np.tile(inputs.mean(axis=0)[2:], (9, 1)))
    assert space.others == "the other 3 inputs stay at their training means"

    chosen = input_space(folder / "table", ["-1:1:3", "0:4:5"], along=["s1", 1])
    assert chosen.along == (3, 0) and len(chosen.inputs) == 15
    points = np.tile(inputs.mean(axis=0), (15, 1))
    points[:, 3] = np.repeat([-1, 0, 1], 5)
    points[:, 0] = np.tile([0, 1, 2, 3, 4], 3)
    np.testing.assert_allclose(chosen.inputs, points)
    # The points are those that are predicted, in the columns of the run.
    same = input_space(folder / "table", inputs=points)
    np.testing.assert_allclose(chosen.prediction.mean, same.prediction.mean, rtol=1e-9)
    figure = plot_input_space(chosen)
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["s1", "s1"]
    assert figure.axes[0].get_ylabel() == "age"
    assert figure.get_supxlabel() == chosen.others

    one = input_space(folder / "table", along="bp")
    low, high = inputs[:, 2].min(), inputs[:, 2].max()
    assert one.along == (2,) and len(one.inputs) == 201
    np.testing.assert_allclose(one.inputs[0, 2], low - 0.15 * (high - low))
    assert plot_input_space(one).axes[0].get_xlabel() == "bp"
    assert len(input_space(folder / "table", "0:1:2", along=[1, 2, 3]).inputs) == 8
    assert len(input_space(folder / "table", ["0:1:2"] * 5).inputs) == 32, "each has its range"
    assert input_space(folder / "table", ["0:1:2"] * 3).along == (0, 1, 2)


def test_means_without_the_data(wide):
    folder, inputs = wide
    space = input_space(folder / "arrays", "-1:1:3", along=[2, 5])
    assert space.names == ("x1", "x2", "x3", "x4", "x5")
    np.testing.assert_allclose(space.inputs[0, [0, 2, 3]], inputs.mean(axis=0)[[0, 2, 3]])
    raw = input_space(folder / "raw", "-1:1:3")
    assert (raw.inputs[:, 2:] == 0).all()
    assert raw.others == "the other 3 inputs stay at 0 (the training data are not known)"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"along": "bmj"}, r"^along: .* Did you mean 'bmi'\? Received: bmj\."),
        ({"along": [0]}, "a number from 1 to 5"),
        ({"along": ["6"]}, "a number from 1 to 5"),
        ({"along": ["age", 1]}, "different inputs"),
        ({"along": [1, 2, 3, 4]}, "one, two or three"),
        ({"along": []}, "one, two or three"),
        ({"along": ["age"], "ranges": ["0:1:2", "0:1:2"]}, "one for each input is needed"),
        ({"along": ["age"], "inputs": np.zeros((1, 5))}, "along: inputs were already given"),
    ],
)
def test_inputs_that_cannot_vary(wide, more, words):
    with pytest.raises(InputError, match=words):
        input_space(wide[0] / "table", **more)


def test_the_command_says_which_inputs_vary(wide, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = str(wide[0] / "table")
    assert command.main([run, "--along", "bp", "age", "--range=0:1:5", "--output", "a"]) == 0
    said = capsys.readouterr().out
    assert "bp and age vary; the other 3 inputs stay at their training means" in said
    assert pd.read_csv("a/inputspace.csv")["s2"].nunique() == 1
    assert (tmp_path / "a" / "inputspace.png").exists()
    assert command.main([run, "--along", "nothing", "--output", "b"]) == 2
    assert "--along: unknown input" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_inputs_in_another_encoding_are_one_sentence(runs, tmp_path, encoding):
    (tmp_path / "i.csv").write_bytes("x1,x2,größe\n1,2,3\n".encode(encoding))
    with pytest.raises(InputError, match=r"is not UTF-8 text|is not a number|not a row"):
        read_inputs(tmp_path / "i.csv", tati_re.load(runs / "sampled"))
