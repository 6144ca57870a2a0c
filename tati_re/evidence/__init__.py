"""The evidence log Z of a model: by thermodynamic integration, Frenkel-Ladd integration, stepping stone, MBAR and
sequential Monte Carlo, each with an error bar.

    evidence = tati_re.evidence.log_evidence(sim)
    print(evidence.log_z, evidence.error)

`estimators`, `grids`, `population` and `quadratic` are functions of arrays and work on energies from anywhere.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tati_re.evidence.methods import estimated, log_evidence, log_evidences, sample_energies
    from tati_re.evidence.of_run import energies_of_run
    from tati_re.evidence.result import Evidence, Evidences, bayes_factors

__all__ = [
    "Evidence",
    "Evidences",
    "bayes_factors",
    "energies_of_run",
    "estimated",
    "log_evidence",
    "log_evidences",
    "sample_energies",
]

_HOME = {
    "Evidence": "result",
    "Evidences": "result",
    "bayes_factors": "result",
    "energies_of_run": "of_run",
    "estimated": "methods",
    "log_evidence": "methods",
    "log_evidences": "methods",
    "sample_energies": "methods",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tati_re.evidence' has no attribute '{name}'")
    return getattr(importlib.import_module(f"tati_re.evidence.{_HOME[name]}"), name)
