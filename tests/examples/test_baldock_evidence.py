"""The example on Baldock's two networks: the priors' densities, and a run in small."""

from __future__ import annotations

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
def test_the_two_paths_agree_in_small(script, tmp_path, capsys):
    """Within four standard errors, and neither is above 0, the largest log Z of a cross-entropy.

    The ladder from the prior gives -92 and -100 with errors of 2. Of the large networks that the
    quick run had, Frenkel and Ladd's path gave -5,351 and the one from the prior -99.
    """
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 8 and (table["log_z"] < 0).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "log Bayes factor" in said and "warning" not in said


def test_paths_that_disagree_are_named(script, capsys):
    """As the quick run on the large networks once had them."""

    def results(prior: float, springs: float) -> list:
        values = {"thermodynamic_integration": prior, "frenkel_ladd": springs}
        return [
            script.Result(net, method, run, value + run, 1.0)
            for net in script.NETS
            for method, value in values.items()
            for run in (0, 1)
        ]

    assert script.disagreements(results(-99, -97)) == []
    first, second = script.disagreements(results(-99, -5351))
    assert "one hidden layer: the two paths differ by 5,252 nats" in first
    assert "three hidden layers" in second
    assert sum("impossible" in said for said in script.disagreements(results(880, 880))) == 4
    script.report(results(-99, -97), "frenkel_ladd")
    said = capsys.readouterr().out
    assert "log Bayes factor +0 ± 1: no winner within two standard errors" in said


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
