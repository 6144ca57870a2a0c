"""The evidence log Z of a model: by thermodynamic integration, Frenkel-Ladd integration, stepping
stone, MBAR and sequential Monte Carlo, each with an error bar.

    evidence = tati_re.evidence.log_evidence(sim)
    print(evidence.log_z, evidence.error)

`estimators` and `grids` are functions of arrays and work on energies from anywhere.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.evidence.estimating import energies_of_run as energies_of_run
    from tati_re.evidence.estimating import estimated as estimated
    from tati_re.evidence.methods import log_evidence as log_evidence
    from tati_re.evidence.methods import log_evidences as log_evidences
    from tati_re.evidence.methods import sample_energies as sample_energies
    from tati_re.evidence.result import Evidence as Evidence
    from tati_re.evidence.result import Evidences as Evidences
    from tati_re.evidence.result import bayes_factors as bayes_factors

__getattr__, __all__ = lazy_names(__name__)
