"""The example of a transformer that learns modular addition: its data, its network, a quick run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.scripts import example

script = example("grokking")


def test_pairs_are_all_there_once():
    train, rest = script.pairs(modulus=5, fraction=0.6, seed=1)
    assert len(train[0]) == 15 and len(rest[0]) == 10
    tokens = np.concatenate([train[0], rest[0]])
    sums = np.concatenate([train[1], rest[1]])
    np.testing.assert_array_equal((tokens[:, 0] + tokens[:, 1]) % 5, sums)
    assert len(np.unique(tokens, axis=0)) == 25 and (tokens[:, 2] == 10).all()
    assert tokens[:, 1].min() == 5 and tokens[:, 1].max() == 9


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fraction", "1"], "--fraction is out of range. Received: 1"),
        (["--tether", "0"], "--tether is out of range. Received: 0"),
        (["--num-draws", "3"], "--num-draws is too small. Received: 3"),
        (["--modulus", "2"], "--modulus is too small. Received: 2"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, words, sentence):
    assert script.main([*words, "--output", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_quick_run(tmp_path, capsys):
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["step"].tolist() == [0, 20]
    assert np.isfinite(table[["coefficient", "error", "from_variance"]]).all().all()
    assert (tmp_path / "figure.png").exists()
    assert "training pairs" in capsys.readouterr().out
