"""`python -m benchmarks.serving RUN ROWS.csv`: what predictions of a run cost once it is loaded.

Prints milliseconds of processor time for one row, another one at each call, for many rows, for the
bare forward passes of all draws, and for a predictor of 16 members. ROWS.csv holds the columns of
the run, at least 100 rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import tati_re
from tati_re.prediction import source_of

CALLS = 60
"""Predictions of one row."""
REPEATS = 3
"""Predictions of many rows."""


def milliseconds(call: Callable[[int], object], calls: int) -> str:
    """Median and least processor time of a call.

    Args:
        call: Gets the number of the call.
        calls: How often it is called.
    """
    call(0)
    times = []
    for number in range(calls):
        start = time.process_time()
        call(number)
        times.append(1e3 * (time.process_time() - start))
    return f"median {np.median(times):.2f} ms, least {min(times):.2f} ms"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("rows")
    parser.add_argument("--many", type=int, default=10_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")

    run = tati_re.load(arguments.run)
    table = pd.read_csv(arguments.rows)
    many = pd.concat([table] * -(-arguments.many // len(table))).head(arguments.many)
    network, draws = source_of(run, thin=None, inputs=many)
    prepared = network.prepared(many)
    predictor = run.compress(members=16, tolerance=100, inputs=table)

    def row(number: int) -> pd.DataFrame:
        first = number % len(table)
        return table.iloc[first : first + 1]

    print(f"{len(draws):,} draws of {network.num_parameters:,} parameters")
    print("one row          ", milliseconds(lambda k: run.predict(row(k)), CALLS))
    print("predictor, a row ", milliseconds(lambda k: predictor.predict(row(k)), CALLS))
    print(f"{arguments.many:,} rows      ", milliseconds(lambda _: run.predict(many), REPEATS))
    passes = milliseconds(lambda _: network.outputs_of_all(draws, prepared), REPEATS)
    print("bare passes      ", passes)


if __name__ == "__main__":
    main()
