"""The compensation density of a noisy Barker test: its spectrum, and the logistic law rebuilt from
it.

Figure 1 of the paper on replica-exchange Nosé-Hoover dynamics: the spectrum that the density would
need grows again past ω = π/σ², so that it has to be cut off; the published series does so with a
filter λ = 10 and three terms. Beside it stands the density by quadrature with a searched cut. Both
are added to their noise, N(0, σ²), and compared with the logistic law, which is what a swap test
needs.

    python examples/compensation_density.py [--noise-variance 0.2] [--output results/compensation]

Writes compensation.csv (densities and errors on a grid) and compensation.png to the output folder,
in seconds. Source: R. Luo et al., Replica-exchange Nosé-Hoover dynamics for Bayesian learning on
large datasets (2020), section 2.3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re
from tati_re.exchange import (
    LARGEST_NOISE_VARIANCE,
    CompensationTable,
    best_cut,
    compensation_table,
    cumulative_after_noise,
    log_spectrum,
    series_weights,
)

PUBLISHED_SERIES = "series, 3 terms, λ = 10"
SERIES = {
    PUBLISHED_SERIES: (3, 10.0),
    "series, 2 terms, λ = 10": (2, 10.0),
    "series, 3 terms, no λ": (3, None),
}
SEARCHED = "searched cut"
PUBLISHED = published("renhd_series")["coefficients"]
"""Eq. 18: coefficients of g, g², ... at σ² = 0.2."""
X = np.linspace(-12, 12, 241)


def logistic_derivative(order: int) -> list[int]:
    """Coefficients of g¹, g², ... in the derivative of this order of the logistic function g.

    From d gᵏ/dz = k gᵏ - k gᵏ⁺¹.

    Args:
        order: 0 or more.

    Examples:
        >>> logistic_derivative(3)
        [1, -7, 12, -6]
    """
    coefficients = [1]
    for _ in range(order):
        up = [-(k + 1) * value for k, value in enumerate(coefficients)]
        stay = [(k + 1) * value for k, value in enumerate(coefficients)]
        coefficients = [a + b for a, b in zip([*stay, 0], [0, *up], strict=True)]
    return coefficients


def series_coefficients(
    noise_variance: float, terms: int, series_filter: float | None = 10.0
) -> list[float]:
    """The series as a polynomial in the logistic function g: coefficients of g¹, g², ..., as
    printed in eq. 18 for σ² = 0.2, λ = 10 and three terms.
    """
    total = np.zeros(2 * terms)
    for n, weight in enumerate(series_weights(noise_variance, terms, series_filter)):
        total[: 2 * n + 2] += weight * np.array(logistic_derivative(2 * n + 1), float)
    return total.tolist()


def tables(noise_variance: float) -> dict[str, CompensationTable]:
    """The density by each construction."""
    found = {name: compensation_table(noise_variance, *key) for name, key in SERIES.items()}
    return found | {SEARCHED: compensation_table(noise_variance)}


def density_at(table: CompensationTable, x: np.ndarray) -> np.ndarray:
    """A table's density on another grid."""
    return np.interp(np.abs(x), table.positions, table.density)


def draw(
    noise_variance: float,
    found: dict[str, CompensationTable],
    errors: dict[str, np.ndarray],
    path: Path,
) -> None:
    """Draws spectra, densities and the errors after convolution."""
    from tati_re.plotting import COLORS, DARK, GRAY, new_figure, plain, save

    figure = new_figure(10.5, 3.6)
    left, middle, right = figure.subplots(1, 3)
    colors = dict(zip(found, COLORS, strict=False))
    omega = np.linspace(0.01, 9 + 2 / noise_variance, 600)
    cut = best_cut(noise_variance)
    ideal = log_spectrum(omega) + noise_variance * omega**2 / 2
    series = np.log(np.abs(_series(omega, noise_variance, *SERIES[PUBLISHED_SERIES])))
    filtered = {
        PUBLISHED_SERIES: log_spectrum(omega) + series,
        SEARCHED: ideal - (omega / cut.frequency) ** cut.power,
    }
    left.plot(omega, ideal / np.log(10), color=GRAY, linewidth=2.5, label="no cut: grows for ever")
    left.plot(
        omega,
        log_spectrum(omega) / np.log(10),
        color=DARK,
        linestyle="--",
        linewidth=0.9,
        label="logistic",
    )
    for name, values in filtered.items():
        left.plot(omega, values / np.log(10), color=colors[name], label=name)
    left.axvline(np.pi / noise_variance, color=GRAY, linewidth=0.7, linestyle=":")
    left.annotate("π/σ²", (np.pi / noise_variance, 0.2), fontsize=8, color=DARK, ha="right")
    left.set_ylim(-22, 1.5)
    left.set_xlabel("frequency ω")
    left.set_ylabel("log₁₀ |spectrum|")

    z = np.linspace(-7, 7, 561)
    middle.plot(
        z, expit(z) * expit(-z), color=DARK, linestyle="--", linewidth=0.9, label="logistic"
    )
    for name in (PUBLISHED_SERIES, SEARCHED):
        middle.plot(z, density_at(found[name], z), color=colors[name], label=name)
    middle.set_xlabel("z")
    middle.set_ylabel(f"density at σ² = {noise_variance:g}")
    middle.set_ylim(0, None)

    for name, values in errors.items():
        right.semilogy(X, np.maximum(np.abs(values), 1e-14), color=colors[name], label=name)
    right.set_ylim(1e-13, 1e-1)
    right.set_xlabel("z plus its noise")
    right.set_ylabel("error of the distribution")
    for axes in (left, middle, right):
        plain(axes)
    handles = {
        label: line
        for axes in (left, middle, right)
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        frameon=False,
        fontsize=8,
        ncols=len(handles),
    )
    save(figure, path)


def _series(
    omega: np.ndarray, noise_variance: float, terms: int, series_filter: float
) -> np.ndarray:
    weights = series_weights(noise_variance, terms, series_filter)
    return sum(weight * (-1) ** n * omega ** (2 * n) for n, weight in enumerate(weights))


def compare(noise_variance: float, output: Path) -> None:
    """Prints the errors of all constructions, writes CSV and figure.

    Args:
        noise_variance: σ².
        output: Folder of the files.

    Raises:
        InputError: A variance out of its range, or a folder that cannot be written.
    """
    if not 0 < noise_variance <= LARGEST_NOISE_VARIANCE:
        raise tati_re.InputError(
            "--noise-variance is out of range.",
            noise_variance,
            f"above 0, up to {LARGEST_NOISE_VARIANCE}",
        )
    found = tables(noise_variance)
    errors = {name: cumulative_after_noise(table, X) - expit(X) for name, table in found.items()}
    cut = best_cut(noise_variance)
    print(
        f"compensation at noise variance {noise_variance:g}; cut exp(-(w/{cut.frequency:.2f})^{cut.power})"
    )
    coefficients = ", ".join(f"{value:.4g}" for value in series_coefficients(noise_variance, 3))
    print(f"eq. 18, coefficients of g, g^2, ...: {coefficients}")
    if np.isclose(noise_variance, 0.2):
        print(f"                          published: {', '.join(PUBLISHED)}")
    print("\nlargest error of the distribution of z + noise")
    for name, values in errors.items():
        print(f"{name:28}{np.abs(values).max():.2e}")
    columns = {"z": X, "logistic": expit(X) * expit(-X)}
    for number, name in enumerate(found):
        columns[f"density_{number}"], columns[f"error_{number}"] = (
            density_at(found[name], X),
            errors[name],
        )
    try:
        output.mkdir(parents=True, exist_ok=True)
        with open(output / "compensation.csv", "w") as file:
            np.savetxt(
                file,
                np.column_stack(list(columns.values())),
                delimiter=",",
                header=",".join(columns),
                comments="",
                fmt="%.9g",
            )
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None
    draw(noise_variance, found, errors, output / "compensation.png")
    print(f"\n{output / 'compensation.csv'}, {output / 'compensation.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="The compensation density of a noisy Barker test.")
    parser.add_argument(
        "--noise-variance",
        type=float,
        default=0.2,
        metavar="V",
        help="variance of the noise; default 0.2, as published",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/compensation"),
        metavar="DIR",
        help="folder of the files",
    )
    arguments = parser.parse_args(argv)
    try:
        compare(arguments.noise_variance, arguments.output)
    except tati_re.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
