"""The example on when exchange pays: its second path against quadrature, its copies, and the whole of it, small."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tests.scripts import example

pays = example("exchange_pays")


def test_the_second_path_against_quadrature():
    """One unit: a and b on a grid, c and d integrated by the covariance of the targets. 4,000 particles of 8 runs agree
    within 5.5 errors from their spread, a fiftieth of the posterior's deviation; both walls have half each."""
    problem = pays.MIRROR._replace(noise=0.5)
    (x, y), s = problem.data(), problem.prior_std
    a, b = np.meshgrid(np.linspace(-20, 20, 161), np.linspace(-22, 22, 161), indexing="ij")
    hidden = np.tanh(a.reshape(-1, 1) * x[:, 0] + b.reshape(-1, 1))
    wanted = np.tanh(a.reshape(-1, 1) * pays.INPUTS + b.reshape(-1, 1))
    covariance = s**2 * (hidden[:, :, None] * hidden[:, None] + 1) + problem.noise**2 * np.eye(len(x))
    answer = np.linalg.solve(covariance, np.broadcast_to(y, (len(covariance), *y.shape)))[..., 0]
    log_weight = -0.5 * (answer @ y)[:, 0] - 0.5 * np.linalg.slogdet(covariance)[1]
    log_weight -= 0.5 * (a.ravel() ** 2 + b.ravel() ** 2) / s**2
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means = s**2 * (np.einsum("gn,gm,gm->gn", wanted, hidden, answer) + answer.sum(1, keepdims=True))
    expected = weight @ means
    found = np.concatenate([pays.sequential(problem, seed, 4000)["mean"] for seed in range(8)])
    error = found.std(0, ddof=1) / np.sqrt(8)
    print(np.abs(found.mean(0) - expected).max(), error.max())
    assert error.max() < 0.02
    # Eight runs give a t of 7 degrees, and 41 inputs move together: 5.5 of its errors with the largest of them.
    assert np.abs(found.mean(0) - expected).max() < 5.5 * error.max()
    np.testing.assert_allclose(expected, expected[::-1], atol=1e-3)
    # Not folded into one: cooled without moves, the particles are too few.
    poor = pays.sequential(problem, 0, 200, moves=0)["mean"][0]
    assert np.abs(poor - expected).max() > 5.5 * error.max()


def test_copies_and_draws():
    """Of prior draws each copy of a network has its share; the same network in all its copies has each once."""
    problem = pays.Problem()
    shares = problem.shares(problem.prior_draws(40_000, 0)[None])
    assert shares.shape == (1, 8)
    assert np.abs(shares - 1 / 8).max() < 5.5 * np.sqrt(7 / 64 / 40_000)
    first = problem.prior_draws(1, 1)[0]
    swapped = first[[1, 0, 3, 2, 5, 4, 6]]
    signs = np.array([[i, j, i, j, i, j, 1] for i in (1, -1) for j in (1, -1)])
    copies = np.concatenate([one * signs for one in (first, swapped)])
    np.testing.assert_allclose(problem.outputs(copies), problem.outputs(np.array([first] * 8)), atol=1e-12)
    np.testing.assert_array_equal(problem.shares(copies[None])[0], 1 / 8)


def test_bad_sizes_are_one_sentence(tmp_path, capsys):
    assert pays.main(["--rounds", "0", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: --rounds is too small. Received: 0. Expected: at least 1.\n"


@pytest.mark.slow
def test_the_whole_small(tmp_path, capsys, monkeypatch):
    """Ladders find both explanations, chains of HMC stay with theirs; a second call does nothing again."""
    monkeypatch.setattr(pays, "CHAINS", ("HMC",))
    monkeypatch.setattr(pays, "WELL", pays.MIRROR)
    arguments = ["--ladders", "6", "--chains", "6", "--rounds", "600", "--particles", "1000", "--fit-steps", "300"]
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
