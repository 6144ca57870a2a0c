"""Landscapes: values, directions, grids, projections, and tables that go on where they were
stopped.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import tati_re
from tati_re import landscape
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.landscape import tables
from tati_re.landscape.grid import axes_of
from tati_re.posterior.function import FunctionPotential


@pytest.fixture(scope="module")
def sim():
    sim = tati_re.Simulation(
        data="two_clusters",
        hidden=[3],
        activation="tanh",
        dtype="float64",
        execution="graph",
        prior_std=2.0,
        verbose=0,
    )
    sim.parameters = np.random.default_rng(0).normal(0, 0.5, sim.num_parameters())
    return sim


@pytest.fixture(scope="module")
def surface(sim):
    return landscape.Surface(sim, test=True, points=8)


class Bowl:
    """A surface in NumPy that counts its points: L = sum of k_i (x_i - m_i)^2 / 2."""

    columns, points, identity, dtype = ("loss", "potential"), 4, "a bowl", "float64"

    def __init__(self, curvatures, minimum=0.0):
        self.curvatures, self.minimum = np.asarray(curvatures, float), minimum
        self.num_parameters, self.evaluated = len(self.curvatures), 0
        self.fails_after = np.inf

    def values(self, positions):
        if self.evaluated >= self.fails_after:
            raise KeyboardInterrupt
        self.evaluated += len(positions)
        loss = 0.5 * np.sum(self.curvatures * (positions - self.minimum) ** 2, axis=1)
        return {"loss": loss, "potential": 10 * loss}


def path(positions):
    return [
        SimpleNamespace(step=10 * k, walker=0, parameters=row) for k, row in enumerate(positions)
    ]


def test_points_of_a_block_have_the_values_of_single_ones(sim, surface):
    theta = sim.parameters.copy()
    points = theta + np.random.default_rng(1).normal(0, 1, (19, len(theta)))
    found = surface.values(points)
    assert tuple(found) == ("loss", "potential", "accuracy", "test_loss", "test_accuracy")
    for k in (0, 8, 18):
        sim.parameters = points[k]
        assert found["loss"][k] == pytest.approx(sim.loss(), rel=1e-12)
        assert found["potential"][k] == pytest.approx(sim.potential(), rel=1e-12)
        assert found["accuracy"][k] == pytest.approx(sim.score(), rel=1e-12)
        data = sim.dataset
        outputs = sim.predict(data.test_inputs)[:, 0]
        assert found["test_accuracy"][k] == np.mean((outputs > 0) == (data.test_targets > 0))
    sim.parameters = theta
    assert surface.potential(theta) == pytest.approx(sim.potential(), rel=1e-12)


def test_gradient_and_products(sim, surface):
    value, slope = surface.gradient(sim.parameters)
    assert value == pytest.approx(sim.potential(), rel=1e-12)
    np.testing.assert_allclose(slope, sim.gradients(), rtol=1e-10, atol=1e-10)
    hessian = sim.hessians()
    vectors = np.random.default_rng(2).normal(size=(11, len(hessian)))
    np.testing.assert_allclose(
        surface.hessian_product(sim.parameters, vectors), vectors @ hessian, rtol=1e-9, atol=1e-8
    )
    np.testing.assert_allclose(
        np.linalg.eigvalsh(landscape.hessian_matrix(surface, sim.parameters)),
        np.linalg.eigvalsh(hessian),
        rtol=1e-6,
    )


def test_a_fixed_batch(sim):
    surface = landscape.Surface(sim, batch_size=50)
    both = landscape.Surface(sim)
    assert (
        surface.identity != both.identity
        and landscape.Surface(sim, batch_size=50).identity == surface.identity
    )
    one = sim.parameters[None]
    assert surface.values(one)["loss"] == landscape.Surface(sim, batch_size=50).values(one)["loss"]
    assert surface.values(one)["loss"] != both.values(one)["loss"]
    # Likelihood and prior keep their weights: U is still N times the mean loss of the batch, and V.
    batch, whole = surface.values(one), both.values(one)
    difference = 500 * (whole["loss"] - batch["loss"])
    assert whole["potential"] - batch["potential"] == pytest.approx(difference)


def test_a_function():
    potential = FunctionPotential(lambda x: tf.reduce_sum(x**4, -1), 2)
    surface = landscape.Surface(potential)
    point = np.array([1.0, 2.0])
    assert surface.values(np.stack([point, 0 * point]))["loss"].tolist() == [17.0, 0.0]
    np.testing.assert_allclose(surface.gradient(point)[1], [4.0, 32.0])
    np.testing.assert_allclose(landscape.hessian_matrix(surface, point), np.diag([12.0, 48.0]))
    with pytest.raises(InputError, match="batch_size and test"):
        landscape.Surface(potential, test=True)
    with pytest.raises(
        InputError, match=r"Points do not match the model. Received: shape \(1, 3\)"
    ):
        surface.values(np.zeros((1, 3)))


# Directions


def test_filters_have_the_lengths_of_the_centre():
    """Columns of a kernel are its filters; the lengths of its rows, the wrong axis, are others."""
    centre = np.random.default_rng(3).normal(size=20 + 5)
    shapes = [(4, 5), (5,)]
    rows = landscape.random_directions(centre, shapes, 2, seed=1)
    for row in rows:
        kernel, there = row[:20].reshape(4, 5), centre[:20].reshape(4, 5)
        np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), np.linalg.norm(there, axis=0))
        assert not np.allclose(
            np.linalg.norm(kernel, axis=1), np.linalg.norm(there, axis=1), rtol=0.05
        )
        assert np.linalg.norm(row[20:]) == pytest.approx(np.linalg.norm(centre[20:]))
    assert not np.allclose(rows[0], rows[1])
    np.testing.assert_allclose(landscape.random_directions(2 * centre, shapes, 2, seed=1), 2 * rows)
    one = landscape.random_directions(centre, shapes, 1, normalization="tensor")[0]
    assert np.linalg.norm(one[:20]) == pytest.approx(np.linalg.norm(centre[:20]))
    assert np.linalg.norm(
        landscape.random_directions(centre, shapes, 1, normalization="none")
    ) == pytest.approx(1)
    with pytest.raises(InputError, match="Did you mean 'filter'"):
        landscape.random_directions(centre, shapes, normalization="filters")


@pytest.mark.parametrize("shape", [(40, 7), (6, 30)])
def test_principal_directions_of_a_path_and_of_samples(shape):
    points = np.random.default_rng(4).normal(size=shape) * np.linspace(3, 0.1, shape[1])
    centre = points[-1]
    rows, parts = landscape.trajectory_directions(points, centre, 3)
    _, singular, right = np.linalg.svd(points - centre, full_matrices=False)
    np.testing.assert_allclose(np.abs(np.sum(rows * right[:3], axis=1)), 1, rtol=1e-9)
    np.testing.assert_allclose(parts, (singular**2 / np.sum(singular**2))[:3], rtol=1e-9)
    rows, values = landscape.covariance_directions(points, [1, 3])
    expected, vectors = np.linalg.eigh(np.cov(points.T))
    np.testing.assert_allclose(values, expected[[-1, -3]], rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(rows * vectors.T[[-1, -3]], axis=1)), 1, rtol=1e-9)
    with pytest.raises(InputError, match="no eigenvector of that number"):
        landscape.covariance_directions(points, [min(shape) + 1])
    line = np.outer(np.linspace(0, 1, shape[0]), points[0])
    assert landscape.trajectory_directions(line, line[-1], 1)[1] == pytest.approx(1)
    with pytest.raises(InputError, match="fewer directions than asked for"):
        landscape.trajectory_directions(line, line[-1], 2)


def test_a_plane_through_given_points():
    first, second, third = np.eye(3)
    centre, directions = landscape.between(first, second, third)
    np.testing.assert_allclose(centre + directions, [second, third])
    with pytest.raises(InputError, match="the same"):
        landscape.between(first, first)


def test_held_parameters():
    names = ["dense/kernel[0,0]", "dense/kernel[0,1]", "dense/bias[0]", "dense_1/bias[0]"]
    assert landscape.fixed_mask(names, ["*/bias"]).tolist() == [False, False, True, True]
    assert landscape.fixed_mask(names, ["dense/kernel[0,1]"]).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert landscape.fixed_mask(names, ["dense/*"]).tolist() == [True, True, True, False]
    with pytest.raises(InputError, match=r"matches no parameter\. Did you mean 'dense/bias'"):
        landscape.fixed_mask(names, ["dens/bias"])
    mask = np.array([True, False, True, True])
    assert landscape.project_out(np.ones((1, 4)), mask).tolist() == [[0, 1, 0, 0]]
    with pytest.raises(InputError, match="changes only"):
        landscape.project_out(np.eye(4)[:1], mask)


# Grids


def test_coordinates_and_scales():
    grid = landscape.Grid(np.zeros(3), np.eye(3)[:2], [(-1, 1, 3), (0, 2, 2)], (0, -1))
    assert grid.num_points == 12
    rows = grid.coordinates(0, 12)
    np.testing.assert_array_equal(rows[:6, 1:], [[-1, 0], [-1, 2], [0, 0], [0, 2], [1, 0], [1, 2]])
    np.testing.assert_array_equal(
        rows[6:, 1:], [[-0.1, 0], [-0.1, 0.2], [0, 0], [0, 0.2], [0.1, 0], [0.1, 0.2]]
    )
    np.testing.assert_array_equal(grid.coordinates(5, 8), rows[5:8])
    with pytest.raises(InputError, match="too many points"):
        landscape.Grid(np.zeros(8), np.eye(8), [(0, 1, 10)] * 8)


@pytest.mark.parametrize("text", ["1", "0:1", "1:0:3", "0:1:1", "a:b:3", "0:inf:3", "0:1:3:4"])
def test_bad_ranges(text):
    with pytest.raises(InputError, match="range has the wrong form"):
        landscape.parse_axis(text)
    for axis in (
        landscape.Axis(1.0, 1.0, 1),
        landscape.Axis(1.0, 0.0, 3),
        landscape.Axis(0.0, float("nan"), 3),
    ):
        with pytest.raises(InputError, match="range has the wrong form"):
            axes_of(axis, "direction", 1)


def test_projections_on_skew_directions():
    """Coordinates by least squares; products with the directions would be [2.5, 2] in place of [2,
    1].
    """
    directions = np.array([[1.0, 0, 0], [0.5, 1.0, 0]])
    coordinates, distance = landscape.project(
        np.array([[3.5, 2.0, 4.0]]), np.array([1.0, 1.0, 1.0]), directions
    )
    np.testing.assert_allclose(coordinates, [[2.0, 1.0]])
    np.testing.assert_allclose(distance, [3.0])
    with pytest.raises(InputError, match="are linearly dependent: they span"):
        landscape.project(np.zeros((1, 3)), np.zeros(3), np.array([[1.0, 0, 0], [2.0, 0, 0]]))


def test_a_scan_of_a_bowl():
    bowl = Bowl([1.0, 4.0, 9.0])
    positions = path(np.array([[0.5, 0.5, 2.0], [0.0, 0.0, 1.0]]))
    found = landscape.scan(bowl, np.zeros(3), np.eye(3)[:2], "-1:1:5", trajectory=positions)
    assert list(found.table) == ["c0", "c1", "loss", "potential", "ln_excess_loss"]
    np.testing.assert_allclose(
        found.table["loss"], (found.table["c0"] ** 2 + 4 * found.table["c1"] ** 2) / 2
    )
    assert found.lowest == 0 and found.table["ln_excess_loss"].isna().sum() == 1
    np.testing.assert_allclose(found.trajectory["loss"], [18.625, 4.5])
    np.testing.assert_allclose(found.trajectory["plane_loss"], [0.625, 0.0])
    np.testing.assert_allclose(found.trajectory["distance"], [2.0, 1.0])
    np.testing.assert_allclose(found.trajectory["ln_excess_loss"], np.log([18.625, 4.5]))
    along = landscape.along(bowl, positions)
    np.testing.assert_allclose(along["loss"], [18.625, 4.5])


def test_a_stopped_scan_goes_on(tmp_path):
    arguments = (np.zeros(2), np.eye(2), "-1:1:5", (0, -1))
    whole = landscape.scan(Bowl([1.0, 4.0]), *arguments, output=tmp_path / "whole")
    bowl = Bowl([1.0, 4.0])
    bowl.fails_after = 20
    with pytest.raises(KeyboardInterrupt):
        landscape.scan(bowl, *arguments, output=tmp_path / "a")
    growing = tmp_path / "a" / "landscape.csv.partial"
    assert len(growing.read_text().splitlines()) == 21
    with pytest.raises(InputError, match="is incomplete"):
        landscape.load(tmp_path / "a")
    with growing.open("a") as file:  # a row that a kill cut off
        file.write("-1,0.0")
    bowl.fails_after, bowl.evaluated = np.inf, 0
    found = landscape.scan(bowl, *arguments, output=tmp_path / "a")
    assert bowl.evaluated == 30 and not growing.exists()
    assert (tmp_path / "a" / "landscape.csv").read_bytes() == (
        tmp_path / "whole" / "landscape.csv"
    ).read_bytes()
    assert found.table.equals(whole.table)
    bowl.evaluated = 0
    again = landscape.scan(bowl, *arguments, output=tmp_path / "a")
    assert bowl.evaluated == 0 and again.lowest == whole.lowest
    assert landscape.load(tmp_path / "a").names == ("c0", "c1")
    with pytest.raises(InputError, match=r"contains another landscape\. Received: ranges"):
        landscape.scan(bowl, np.zeros(2), np.eye(2), "-1:1:7", (0, -1), output=tmp_path / "a")
    landscape.scan(bowl, np.zeros(2), np.eye(2), "-1:1:7", output=tmp_path / "a", overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty\. Received: notes\.txt"):
        landscape.scan(bowl, *arguments, output=tmp_path / "other")


def test_other_data_are_another_landscape(tmp_path):
    found = (
        tables.digest([np.zeros(3), "a"]),
        tables.digest([np.zeros(3), "b"]),
        tables.digest([np.zeros(4), "a"]),
    )
    assert len(set(found)) == 3


def test_figures(tmp_path):
    from tati_re.plotting.landscape import plot_landscape

    bowl = Bowl([1.0, 4.0])
    positions = path(np.random.default_rng(5).normal(size=(20, 2)))
    plane = landscape.scan(bowl, np.zeros(2), np.eye(2), "-1:1:7", (0, -1), trajectory=positions)
    figure = plot_landscape(plane, tmp_path / "contour.png")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == ["scale $10^{0}$", "scale $10^{-1}$"]
    line = figure.axes[0].lines[0].get_xdata()
    assert np.isnan(line).any() and np.nanmax(np.abs(line)) <= 1, (
        "positions outside of the plane are gaps"
    )
    assert len(plot_landscape(plane, scales=(-1,)).axes) == 2
    with pytest.raises(InputError, match="none of them is in the table"):
        plot_landscape(plane, scales=(5,))
    surface = plot_landscape(plane, tmp_path / "surface.png", "surface")
    assert [text.get_text() for text in surface.axes[0].texts] == ["ln(L − L₀)"]
    sweep = plot_landscape(landscape.scan(bowl, np.zeros(2), np.eye(2)[:1], "-1:1:7"))
    assert sweep.axes[0].get_ylabel() == "mean loss L"
    for name in ("contour.png", "surface.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    with pytest.raises(InputError, match="kind does not fit"):
        plot_landscape(plane, kind="sweep")
    with pytest.raises(InputError, match="quantity is not a column"):
        plot_landscape(plane, quantity="accuracy")


def test_the_page_that_turns(tmp_path):
    pytest.importorskip("plotly")
    from tati_re.plotting.landscape_files import write_landscape_page

    plane = landscape.scan(
        Bowl([1.0, 4.0]), np.zeros(2), np.eye(2), "-1:1:7", (0, -1), trajectory=path(np.eye(2))
    )
    write_landscape_page(plane, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '"type":"surface"' in text and "10^-1" in text and 'src="http' not in text
    with pytest.raises(InputError, match=r"must end in \.html"):
        write_landscape_page(plane, tmp_path / "a.png")


def test_what_is_no_number_is_no_lowest_point_of_a_figure():
    """A region where U is nan was drawn as the lowest one, and one infinite value left all of a
    figure white.
    """
    from tati_re.plotting.landscape import matrix, plot_landscape

    for hole in (np.nan, np.inf):
        found = landscape.scan(Bowl([1.0, 4.0]), np.zeros(2), np.eye(2), "-1:1:7")
        corner = (found.table["c0"] > 0.5) & (found.table["c1"] > 0.5)
        losses = found.table.assign(
            **{name: found.table[name].mask(corner, hole) for name in ("loss", "potential")}
        )
        found = found._replace(table=landscape.tables.with_excess(losses, found.lowest))
        _, _, values = matrix(found, found.table, "ln_excess_loss")
        assert np.isnan(values).sum() == corner.sum() == 4 and np.isfinite(values[3, 3])
        for quantity in ("ln_excess_loss", "potential"):
            bar = plot_landscape(found, quantity=quantity).axes[1]
            assert bar.get_ylim()[1] == pytest.approx(
                np.nanmax(matrix(found, found.table, quantity)[2]), abs=1.1
            )
