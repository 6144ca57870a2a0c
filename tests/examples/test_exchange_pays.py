"""The example on when exchange pays: its second path against quadrature, its copies, and the whole
of it, small.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tests.scripts import example

pays = example("exchange_pays")


@pytest.mark.slow
def test_the_second_path_against_quadrature():
    """One unit: a and b on a grid, c and d integrated by the covariance of the targets. 4,000
    particles of 8 runs agree within 5.5 errors from their spread, a fiftieth of the posterior's
    deviation; both walls have half each.
    """
    problem = pays.MIRROR._replace(noise=0.5)
    (x, y), s = problem.data(), problem.prior_std
    a, b = np.meshgrid(np.linspace(-20, 20, 161), np.linspace(-22, 22, 161), indexing="ij")
    hidden = np.tanh(a.reshape(-1, 1) * x[:, 0] + b.reshape(-1, 1))
    wanted = np.tanh(a.reshape(-1, 1) * pays.INPUTS + b.reshape(-1, 1))
    covariance = s**2 * (hidden[:, :, None] * hidden[:, None] + 1) + problem.noise**2 * np.eye(
        len(x)
    )
    answer = np.linalg.solve(covariance, np.broadcast_to(y, (len(covariance), *y.shape)))[..., 0]
    log_weight = -0.5 * (answer @ y)[:, 0] - 0.5 * np.linalg.slogdet(covariance)[1]
    log_weight -= 0.5 * (a.ravel() ** 2 + b.ravel() ** 2) / s**2
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means = s**2 * (
        np.einsum("gn,gm,gm->gn", wanted, hidden, answer) + answer.sum(1, keepdims=True)
    )
    expected = weight @ means
    found = np.concatenate([pays.sequential(problem, seed, 4000)["mean"] for seed in range(8)])
    error = found.std(0, ddof=1) / np.sqrt(8)
    print(np.abs(found.mean(0) - expected).max(), error.max())
    assert error.max() < 0.02
    # Eight runs give a t of 7 degrees, and 41 inputs move together: 5.5 of its errors with the
    # largest of them.
    assert np.abs(found.mean(0) - expected).max() < 5.5 * error.max()
    np.testing.assert_allclose(expected, expected[::-1], atol=1e-3)
    # Not folded into one: cooled without moves, the particles are too few.
    poor = pays.sequential(problem, 0, 200, moves=0)["mean"][0]
    assert np.abs(poor - expected).max() > 5.5 * error.max()


def test_copies_and_draws():
    """Of prior draws each copy of a network has its share; the same network in all its copies has
    each once.
    """
    problem = pays.Problem()
    shares = problem.shares(problem.prior_draws(40_000, 0)[None])
    assert shares.shape == (1, 8)
    assert np.abs(shares - 1 / 8).max() < 5.5 * np.sqrt(7 / 64 / 40_000)
    first = problem.prior_draws(1, 1)[0]
    swapped = first[[1, 0, 3, 2, 5, 4, 6]]
    signs = np.array([[i, j, i, j, i, j, 1] for i in (1, -1) for j in (1, -1)])
    copies = np.concatenate([one * signs for one in (first, swapped)])
    np.testing.assert_allclose(
        problem.outputs(copies), problem.outputs(np.array([first] * 8)), atol=1e-12
    )
    np.testing.assert_array_equal(problem.shares(copies[None])[0], 1 / 8)


def test_walls_of_one_unit_and_their_ladder():
    """Mirrored data have each wall in half of the posterior; a finer grid moves the share of others
    by less than 1e-3; neighbors swap at the rate they were spaced for.
    """
    mirror = pays.Walls(pays.MIRROR, points=60)
    assert mirror.share(1.0) @ mirror.right == pytest.approx(0.5)
    coarse, fine = (pays.Walls(pays.SKEWED, points=points) for points in (81, 121))
    assert coarse.share(1.0) @ coarse.right == pytest.approx(fine.share(1.0) @ fine.right, abs=1e-3)
    random = np.random.default_rng(1)
    weights = pays.spaced(coarse, 0.5, 1000, random)
    assert weights[0] == 1 and weights[-1] == 0 and (np.diff(weights) < 0).all()
    low, high = (
        coarse.losses(random.choice(81**2, 1000, p=coarse.share(w)), w, random).sum(1)
        for w in weights[1:3]
    )
    rate = np.minimum(1, np.exp(np.minimum((weights[1] - weights[2]) * (low - high), 0))).mean()
    # Of 1,000 draws both times: errors of 0.014 at most, in the bisection and here.
    assert abs(rate - 0.5) < 0.1


@pytest.mark.slow
def test_swaps_by_few_examples():
    """The penalty and RENHD's rule keep the share of the wall within 5.5 errors; ignored noise does
    not.
    """
    walls = pays.Walls(pays.SKEWED)
    exact = walls.share(1.0) @ walls.right
    weights = pays.spaced(walls, 0.5, 2000, np.random.default_rng(0))
    off, found = {}, {}
    for rule in ("penalty", "barker_compensated", "naive"):
        found[rule] = pays.batched(walls, weights, 3, rule, 20, 48, 1200)
        right = found[rule]["right"]
        off[rule] = (right.mean() - exact) / (right.std(ddof=1) / np.sqrt(len(right)))
    print(off)
    assert all(abs(off[rule]) < 5.5 for rule in ("penalty", "barker_compensated"))
    assert off["naive"] < -5.5
    assert (
        60 < found["penalty"]["seen"] < 150
        and found["penalty"]["arrivals"] > 0.7 * found["naive"]["arrivals"]
    )


def test_bad_sizes_are_one_sentence(tmp_path, capsys):
    assert pays.main(["--rounds", "0", "--output", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == "error: --rounds is too small. Received: 0. Expected: at least 1.\n"
    )


@pytest.mark.slow
def test_the_whole_small(tmp_path, capsys, monkeypatch):
    """Ladders find both explanations, chains of HMC stay with theirs; a second call does nothing
    again.
    """
    monkeypatch.setattr(pays, "CHAINS", ("HMC",))
    monkeypatch.setattr(pays, "WELL", pays.MIRROR)
    arguments = [
        "--ladders",
        "6",
        "--chains",
        "6",
        "--rounds",
        "600",
        "--particles",
        "1000",
        "--fit-steps",
        "300",
    ]
    tasks = [task for task in pays.tasks_of("one", 1) if task.problem == pays.MIRROR]
    monkeypatch.setattr(pays, "tasks_of", lambda part, seeds: tasks)
    assert pays.main([*arguments, "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" s\n") == len(tasks)
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    error = {(line["method"], line["start"]): float(line["error"]) for line in lines}
    print(error)
    assert error["ladder", ""] < 0.4 < error["HMC", "fit"]
    assert pays.main([*arguments, "--output", str(tmp_path)]) == 0
    assert " s\n" not in capsys.readouterr().out
    assert pays.main([*arguments[:-1], "400", "--output", str(tmp_path)]) == 2


def test_digits_predict_as_the_product_does():
    """Class probabilities of prior draws, in NumPy and by the product's network; prior scales of
    each tensor.
    """
    import tati_re

    script = example("exchange_on_digits")
    images, labels = np.random.default_rng(0).random((12, 64)), np.arange(12) % 10
    for hidden in (32, 3):
        weights = script.prior_draws(2, 0, hidden)
        sim = tati_re.Simulation(
            **script.network((images, labels), hidden), num_walkers=2, verbose=0
        )
        sim.parameters = weights
        ours = script.probabilities(weights, images)
        for walker in range(2):
            np.testing.assert_allclose(
                ours[walker], sim.predict_probabilities(images, weights[walker]), atol=1e-5
            )
    many = script.prior_draws(50, 1, 32)
    assert (
        abs(many[:, :2048].std() * 8 - 1) < 0.02
        and abs(many[:, 2080:2400].std() * 32**0.5 - 1) < 0.04
    )


@pytest.mark.slow
def test_digits_small(tmp_path, capsys):
    script = example("exchange_on_digits")
    sizes = ["--examples", "30", "--rungs", "4", "--rounds", "30", "--output", str(tmp_path)]
    assert script.main(sizes) == 0
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert [line["method"] for line in lines] == ["ladder", "walker"]
    assert all(0 < float(line["nll"]) < 5 for line in lines) and float(lines[0]["barrier"]) > 0
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert script.main([*sizes, "--rungs", "5"]) == 2
    assert "another folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_center_helps_a_swap_of_a_network_while_it_is_young(tmp_path):
    """Losses at an old center are as good as independent: V is doubled, within the noise of two
    runs.
    """
    sizes = ["--centers", "--examples", "120", "--ladders", "2", "--output", str(tmp_path)]
    assert example("exchange_on_digits").main(sizes) == 0
    lines = csv.DictReader((tmp_path / "centers.csv").read_text().splitlines())
    found = {int(line["age"]): float(line["variance"]) for line in lines}
    assert found[1] < 0.3 * found[0] and found[1] < found[2] < found[5]
    assert 1.4 < found[200] / found[0] < 2.6


def test_bad_sizes_of_digits_are_one_sentence(capsys):
    assert example("exchange_on_digits").main(["--rungs", "1"]) == 2
    assert (
        capsys.readouterr().err
        == "error: --rungs is out of range. Received: 1. Expected: 2 to 1,000.\n"
    )
