"""The example on Baldock's two networks: the priors' densities, and a run in small."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.scripts import example


@pytest.fixture(scope="module")
def script():
    return example("baldock_evidence")


def test_the_networks_and_the_densities_of_their_priors(script):
    """By the package's own prior and by hand."""
    from tati_re.core.backend import tf

    data = script.generated(0)
    for (net, exact), count in zip(script.LOG_DENSITIES.items(), (10_690, 13_970), strict=True):
        assert script.log_density(net) == pytest.approx(exact, abs=1e-3)
        sim = script.simulation(data, net, 1, 0)
        assert sim.num_parameters() == count
        prior = sim.system.prior(sim.options, {})
        inside = prior.log_prob(tf.zeros((1, count), tf.float64)).numpy()[0]
        assert inside == pytest.approx(exact, abs=1e-3)


@pytest.mark.slow
def test_it_runs_in_small(script, tmp_path, capsys):
    arguments = ["--quick", "--methods", "thermodynamic_integration", "--output", str(tmp_path)]
    assert script.main(arguments) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 4 and np.isfinite(table["log_z"]).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "-19,945.736" in said and "-28,960.436" in said and "log Bayes factor" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--data is missing"),
        (["--data", "nowhere"], "no mnist.npz"),
        (["--quick", "--num-runs", "1"], "--num-runs"),
    ],
)
def test_bad_input_is_one_line(script, tmp_path, capsys, arguments, words):
    assert script.main([*arguments, "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said
