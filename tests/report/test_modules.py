"""Modules of an analysis: one that cannot be computed does not keep the others from the user."""

import numpy as np
import pytest

import tati_re
from tati_re import InputError
from tati_re.analysis.averages import time_or_note
from tati_re.cli.analyse import main
from tests.made_runs import made_run

NEVER = "The positions never change, so their covariance is zero."


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """A run whose 1,100 parameters never changed; its potential did in one chain."""
    potential = np.random.default_rng(1).normal(size=(2, 20))
    potential[0] = 3.0
    folder = tmp_path_factory.mktemp("runs") / "stuck"
    made_run(folder, {"potential": potential}, np.ones((2, 20, 1_100)))
    return folder


def test_a_module_without_a_result_says_so_in_its_place(stuck, tmp_path, capsys):
    flags = ["--no-figures", "--output", str(tmp_path / "a")]
    assert main([str(stuck), *flags]) == 0
    shown = capsys.readouterr().out
    assert "one chain never changes" in shown
    assert shown.index("\naverages\n") < shown.index(f"\ncovariance\n{NEVER}\n")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["averages.csv"]
    results = tati_re.analyse(stuck)
    assert results["covariance"].table.empty and results["covariance"].sentences == [NEVER]
    assert len(results["averages"].table) == 1


def test_a_module_that_was_asked_for_fails_after_the_others_are_made(stuck, tmp_path, capsys):
    flags = ["--no-figures", "--output", str(tmp_path / "b"), "--modules", "covariance"]
    assert main([str(stuck), *flags, "averages"]) == 2
    assert NEVER in capsys.readouterr().err
    assert (tmp_path / "b" / "averages.csv").exists()
    with pytest.raises(InputError, match="never change"):
        tati_re.analyse(stuck, ["averages", "covariance"])


def test_a_wrong_choice_is_refused_although_other_modules_have_results(stuck, tmp_path, capsys):
    flags = ["--no-figures", "--output", str(tmp_path / "c"), "--observables", "potentiall"]
    assert main([str(stuck), *flags]) == 2
    assert "Did you mean 'potential'?" in capsys.readouterr().err
    with pytest.raises(InputError, match="no temperature ladder"):
        tati_re.analyse(stuck, by="rung")


def test_a_figure_that_cannot_be_drawn_is_left_out(stuck, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise InputError("There is nothing to draw.")

    monkeypatch.setattr("tati_re.plotting.plot_run", refused)
    with pytest.warns(UserWarning, match=r"traces\.png is not drawn\. There is nothing to draw\."):
        tati_re.analyse(stuck, ["averages"], output=tmp_path / "d")
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["averages.csv"]


def test_a_chain_that_is_not_finite_has_no_time_and_a_reason():
    time, note = time_or_note(np.array([[1.0, 2.0, np.nan, 3.0, 2.0]]))
    assert np.isnan(time) and note == "not all finite"
