"""Errors of means from chains shorter than 50 autocorrelation times carry a mark, wherever they are
shown.
"""

import numpy as np
import pandas as pd
import pytest

from tati_re.analysis.averages import average, averages
from tati_re.analysis.format import SHORT, SHORT_NOTE, marked, with_error
from tati_re.analysis.free_energy import free_energy
from tati_re.cli import analyse
from tati_re.evidence.estimators import Estimate
from tati_re.evidence.result import Evidence, Evidences, bayes_factors
from tati_re.prediction.temperature_study import _influence
from tati_re.report.page import page_of
from tati_re.summary.summary import summary_lines
from tests.analysis.test_convergence import autoregression
from tests.made_runs import made_run


@pytest.mark.parametrize(("draws", "spread"), [(8, 2.0), (16, 1.6)])
def test_short_chains_have_wrong_errors_and_the_mark(draws, spread):
    """Of AR(0.5), tau = 3: what the mark warns of, and that none is missed; 60,000 / 20 rows have
    no mark.
    """
    chains = autoregression(0.5, 400, draws, 1)
    found = [average(chain) for chain in chains]
    z = np.array([one["mean"] / one["error"] for one in found])
    assert z.std() == pytest.approx(spread, rel=0.25)
    assert all(one["short"] for one in found)
    long = [average(chain) for chain in autoregression(0.5, 20, 3000, 1)]
    assert not any(one["short"] for one in long)


def test_texts_and_tables():
    assert with_error(1295.765, 2.7568, True) == "1,295.8 ± 2.8†"
    assert with_error(0.5, float("nan"), True) == "0.5"
    table = pd.DataFrame(
        {"mean": [1.0, 2.0, 3.0], "error": [0.1, np.nan, 0.25], "short": [True, True, False]}
    )
    shown, foot = marked(table)
    assert shown["error"].tolist() == ["0.1†", "", "0.25"] and foot == [f"{SHORT} {SHORT_NOTE}"]
    assert table["error"].dtype == float, "numbers stay numbers in the table itself"
    assert marked(table[2:])[1] == [] and "short" not in marked(table[2:])[0]


@pytest.mark.parametrize(("rows", "short"), [(40, True), (3000, False)])
def test_a_run_in_summary_report_and_command(tmp_path, capsys, rows, short):
    folder = tmp_path / "a"
    run = made_run(
        folder,
        {name: autoregression(0.5, 2, rows, k) for k, name in enumerate(("loss", "potential"))},
    )
    assert averages(run)["short"].tolist() == [short] * len(averages(run))
    _, lines = summary_lines(run)
    assert any(value.endswith(SHORT) for _, value in lines) == short
    assert ((SHORT, SHORT_NOTE) in lines) == short
    assert (SHORT_NOTE in page_of([run])) == (SHORT_NOTE in page_of([run, run])) == short
    assert analyse.main([str(folder), "--modules", "averages", "--no-figures"]) == 0
    assert (SHORT_NOTE in capsys.readouterr().out) == short
    written = pd.read_csv(folder / "analysis" / "averages.csv")
    assert written["short"].tolist() == [short] * len(written) and written["error"].dtype == float


def test_free_energies_evidence_and_losses():
    values = autoregression(0.9, 2, 4000, 3)
    assert (
        free_energy(values[:, :300], num_bins=5)["short"].all()
        and not free_energy(values, num_bins=5)["short"].any()
    )
    short, long = Estimate(-3.0, values[:, :300], {}), Estimate(-3.0, values, {})
    assert short.short and not long.short and not Estimate(-3.0, np.zeros((2, 50)), {}).short
    one, other = (Evidence(-3.0, 0.1, "mbar", None, short=each.short) for each in (short, long))
    assert "-3.00 ± 0.10† by" in one.summary() and one.summary().endswith(f"{SHORT} {SHORT_NOTE}")
    assert SHORT not in other.summary()
    assert f"{SHORT} {SHORT_NOTE}" in Evidences([one, other]).summary()
    assert Evidences([one, other]).table["short"].tolist() == [True, False]
    assert bayes_factors({"a": other, "b": one})["short"].tolist() == [False, True]
    step, walker = np.tile(np.arange(4000), 2), np.repeat([0, 1], 4000)
    assert _influence(values.ravel(), np.ones(8000), step, walker).shape == (2, 4000)
