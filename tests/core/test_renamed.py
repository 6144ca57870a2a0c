"""Old names of public arguments and methods work for one release, with a warning."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tati_re.analysis import landmarks
from tati_re.cli import analyse as analyse_command
from tati_re.core.errors import InputError
from tati_re.core.renamed import renamed_arguments
from tati_re.exchange import gaussianity_report
from tati_re.exploration import disconnectivity
from tati_re.exploration.jobs import JobResult
from tati_re.landscape import fixed_mask, held
from tati_re.likelihoods import ExtraParameter
from tati_re.plotting import (
    plot_diffusion_map,
    plot_disconnectivity,
    plot_exploration,
    plot_prediction,
)
from tati_re.report.modules import analyse


@renamed_arguments(found="points", what="title")
def drawn(points, title="none"):
    """Draws points."""
    return points, title


def test_an_old_name_warns_and_works():
    with pytest.warns(DeprecationWarning, match=r"argument found is now called points; .* removed"):
        assert drawn(found=3) == (3, "none")
    with pytest.warns(DeprecationWarning) as seen:
        assert drawn(found=3, what="a") == (3, "a")
    assert len(seen) == 2 and {each.filename for each in seen} == {__file__}


def test_new_names_do_not_warn(recwarn):
    assert drawn(3, title="a") == drawn(points=3, title="a") == (3, "a")
    assert not recwarn


def test_both_names_and_unknown_names_are_errors():
    with pytest.raises(TypeError, match="both found and points"):
        drawn(found=3, points=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'find'"):
        drawn(find=3)


def test_the_signature_has_the_new_names():
    assert [*inspect.signature(drawn).parameters] == ["points", "title"]
    assert "diffusion" in inspect.signature(landmarks).parameters


def test_public_names_that_changed():
    with pytest.warns(DeprecationWarning, match="what is now called problem"):
        assert str(InputError(what="x is wrong.", received=3)) == "x is wrong. Received: 3."
    sigma = ExtraParameter("log_sigma", "sigma")
    with pytest.warns(DeprecationWarning, match="said is now called text"):
        assert sigma.said() == sigma.text()
    with pytest.warns(DeprecationWarning, match="held is now called fixed_mask"):
        mask = held(["dense/bias", "dense/kernel"], patterns=["*bias"])
    assert mask.tolist() == fixed_mask(["dense/bias", "dense/kernel"], ["*bias"]).tolist()
    with pytest.warns(DeprecationWarning, match="found is now called points"):
        assert JobResult(positions=0, rows=1, points=[2]).found == [2]


@pytest.mark.parametrize(
    ("function", "old", "new", "others"),
    [
        (disconnectivity, "found", "exploration", {}),
        (gaussianity_report, "what", "subject", {"p_values": ["a"]}),
        (landmarks, "found", "diffusion", {"num_landmarks": 2}),
        (plot_diffusion_map, "found", "diffusion", {"potential": np.zeros(3)}),
        (plot_disconnectivity, "found", "exploration", {}),
        (plot_exploration, "found", "exploration", {}),
        (plot_prediction, "one", "prediction", {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_old_names_of_arguments_reach_the_function(function, old, new, others):
    """Each refuses a number as it does under the new name, after the warning."""
    with pytest.raises(InputError) as refused:
        function(**{new: 1}, **others)
    with (
        pytest.warns(DeprecationWarning, match=f"argument {old} is now called {new}"),
        pytest.raises(InputError) as refused_too,
    ):
        function(**{old: 1}, **others)
    assert str(refused.value) == str(refused_too.value)


def test_modules_of_an_analysis_were_called_what(tmp_path):
    missing = tmp_path / "run"
    with (
        pytest.warns(DeprecationWarning, match="argument what is now called modules"),
        pytest.raises(InputError, match="run folder"),
    ):
        analyse(missing, what=["averages"])
    with pytest.raises(TypeError, match="both what and modules"):
        analyse(missing, what=["averages"], modules=["averages"])


def test_the_flag_what_works_and_warns(tmp_path, capsys):
    missing = str(tmp_path / "run")
    with pytest.warns(FutureWarning, match="its old name --what will be removed"):
        assert analyse_command.main([missing, "--what", "averages"]) == 2
    assert "run folder" in capsys.readouterr().err

    assert analyse_command.main([missing, "--what", "averages", "--modules", "averages"]) == 2
    assert "Give --modules once: --what means the same." in capsys.readouterr().err

    assert analyse_command.main([missing, "--modules", "averages"]) == 2
    assert "--what" not in capsys.readouterr().err
