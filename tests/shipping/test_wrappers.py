"""The examples of the page on production that need packages which may be missing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.product.test_userguide import blocks


def example(name: str) -> str:
    """The text of a file on the page."""
    return next(text for _, file, text in blocks("userguide/production.md") if file == name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mapie():
    pytest.importorskip("mapie", reason="mapie is not installed")
    names: dict = {}
    exec(compile(example("with_mapie.py"), "with_mapie.py", "exec"), names)
    lower, upper = names["intervals"][:, 0, 0], names["intervals"][:, 1, 0]
    assert ((lower < names["mean"]) & (names["mean"] < upper)).all()
    assert np.abs(names["mean"] - names["x"][:5, 0]).max() < 0.5
    assert (upper - lower).max() < 2  # the noise is 0.1; a run too short had intervals of 200


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_skpro():
    pytest.importorskip("skpro", reason="skpro is not installed")
    names: dict = {}
    exec(compile(example("with_skpro.py"), "with_skpro.py", "exec"), names)
    assert names["distribution"].mean().shape == (5, 1)
    assert (names["distribution"].var().to_numpy() > 0).all()
    assert (names["distribution"].var().to_numpy() < 0.25).all()
