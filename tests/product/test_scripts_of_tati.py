"""Scripts of TATi that make the Simulation first and give it data later."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

import tati_re.coming_from_tati as tati
from tati_re import InputError

FEATURES = np.random.default_rng(0).standard_normal((12, 2))
LABELS = np.where(FEATURES[:, :1] > 0, 1.0, -1.0)


@pytest.fixture
def waiting():
    return tati.Simulation(
        batch_size=4, hidden_dimension=[3], loss="mean_squared", seed=426, verbose=0
    )


def test_options_are_there_before_the_data(waiting):
    assert waiting.get_options("batch_size") == 4
    assert waiting.get_options().hidden_dimension == [3]
    waiting.set_options(hidden_dimension=[2], learning_rate=0.2)
    assert waiting.get_options("learning_rate") == 0.2
    assert repr(waiting) == "Simulation without data"
    with pytest.raises(InputError, match="is not a known option"):
        waiting.set_options(no_such_thing=1)


@pytest.mark.parametrize(
    "question", ["loss", "gradients", "fit", "sample", "num_parameters", "num_walkers", "score"]
)
def test_what_needs_data_says_so(waiting, question):
    if question == "num_walkers":
        assert waiting.num_walkers() == 1
        return
    with pytest.raises(InputError, match=r"no data yet.*nn\.dataset"):
        getattr(waiting, question)()


def test_data_make_the_network(waiting, tmp_path, monkeypatch):
    waiting.dataset = [FEATURES, LABELS]
    assert waiting.num_parameters() == 13
    given = tati.Simulation(
        dataset=[FEATURES, LABELS],
        batch_size=4,
        hidden_dimension=[3],
        loss="mean_squared",
        seed=426,
        verbose=0,
    )
    np.testing.assert_array_equal(np.asarray(waiting.parameters), np.asarray(given.parameters))
    loss = given.loss()
    assert waiting.loss() == loss

    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(np.column_stack([FEATURES, LABELS]), columns=["x1", "x2", "label"])
    table.to_csv("d.csv", index=False)
    of_file = tati.Simulation(batch_size=4, hidden_dimension=[3], seed=426, verbose=0)
    of_file.dataset = "d.csv"
    assert of_file.loss() == pytest.approx(loss, rel=1e-6)
    assert of_file.dataset.num_examples == 12 and of_file.dataset.test_inputs is None
    assert tati.Simulation(dataset=["d.csv"], verbose=0).dataset.num_examples == 12


def test_a_pair_that_was_read_is_kept(waiting):
    """The batch moves on where a question is asked again, as in TATi; what was read does not."""
    waiting.dataset = [FEATURES, LABELS]
    features, labels = pair = waiting.dataset
    np.testing.assert_array_equal(pair[0], features)
    assert features.shape == (4, 2) and labels.shape == (4, 1)
    first = waiting.loss()
    assert first == pytest.approx(np.mean((waiting.predict(features) - labels) ** 2), rel=1e-5)
    others = [waiting.loss(), waiting.loss()]
    assert len({first, *others}) == 3
    np.testing.assert_array_equal(pair[0], features)
    np.testing.assert_array_equal(pair[1], labels)
    assert (waiting.dataset[0] != features).any()
    assert pair.num_examples == 12

    # It may be set again, and copies hold it.
    np.testing.assert_array_equal(copy.deepcopy(pair)[0], features)
    waiting.dataset = list(pair)
    assert waiting.dataset.num_examples == 4


def test_questions_about_options_need_no_simulation(capsys):
    tati.Simulation.help("batch_size")
    assert "batch_size" in capsys.readouterr().out
    assert "tanh" in tati.Simulation.get_activations()
    assert "mean_squared" in tati.Simulation.get_losses()


def test_a_walker_predicts_by_its_place_after_the_features():
    nn = tati.Simulation(dataset=[FEATURES, LABELS], number_walkers=2, seed=426, verbose=0)
    both = nn.predict(FEATURES)
    np.testing.assert_array_equal(nn.predict(FEATURES, 1), both[1])
    np.testing.assert_array_equal(nn.predict(features=FEATURES, walker_index=0), both[0])
    parameters = np.asarray(nn.parameters)[1]
    np.testing.assert_array_equal(nn.predict(FEATURES, parameters), both[1])
