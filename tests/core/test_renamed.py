"""Old names of public arguments and methods work for one release, with a warning."""

from __future__ import annotations

import inspect

import pytest

from tati_re.analysis import landmarks
from tati_re.core.errors import InputError
from tati_re.core.renamed import renamed_arguments
from tati_re.likelihoods import ExtraParameter


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
