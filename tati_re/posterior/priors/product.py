"""Different priors for different parameters."""

from collections.abc import Sequence

from tati_re.core.backend import tf
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.potential import Prior

_NAMED = 3


@front_doors
class Product(Prior):
    """Independent priors for consecutive groups of parameters.

    Args:
        parts: The prior of each group.
        sizes: The number of parameters in each group.
        names: Names of the tensors in each group. Default: None.

    Examples:
        >>> priors = tati_re.priors
        >>> str(priors.Product([priors.Gaussian(1.0), priors.Flat()], [2, 1], [["dense/kernel"], ["dense/bias"]]))
        'a Gaussian of standard deviation 1 (dense/kernel); none (dense/bias)'
    """

    name = "product"

    @front_door
    def __init__(
        self, parts: Sequence, sizes: Sequence[int], names: Sequence[Sequence[str]] = ()
    ) -> None:
        self.parts = list(parts)
        self.sizes = [int(size) for size in sizes]
        self.names = [list(run) for run in names] or [[f"part {i}"] for i in range(len(self.parts))]
        self.proper = all(part.proper for part in self.parts)
        self.walled = any(part.walled for part in self.parts)
        self.num_parameters = sum(self.sizes)
        self.hottest = min(part.hottest for part in self.parts)
        self.unconfined = [
            n
            for part, run in zip(self.parts, self.names, strict=True)
            if not part.proper
            for n in run
        ]

    def _pieces(self, values):
        return zip(self.parts, tf.split(values, self.sizes, axis=1), strict=True)

    def log_prob(self, position) -> tf.Tensor:
        return tf.add_n([part.log_prob(piece) for part, piece in self._pieces(position)])

    def gradient(self, position):
        slopes = [(part.gradient(piece), piece) for part, piece in self._pieces(position)]
        if all(slope is None for slope, _ in slopes):
            return None
        return tf.concat(
            [tf.zeros_like(piece) if slope is None else slope for slope, piece in slopes], axis=1
        )

    def confine(self, position, momentum):
        if not self.walled:
            return position, momentum
        momenta = (
            [None] * len(self.parts) if momentum is None else tf.split(momentum, self.sizes, axis=1)
        )
        moved = [
            part.confine(piece, p)
            for (part, piece), p in zip(self._pieces(position), momenta, strict=True)
        ]
        turned = None if momentum is None else tf.concat([p for _, p in moved], axis=1)
        return tf.concat([piece for piece, _ in moved], axis=1), turned

    def from_normal(self, normal) -> tf.Tensor:
        return tf.concat([part.from_normal(piece) for part, piece in self._pieces(normal)], axis=1)

    def get_config(self) -> dict:
        first = {str(part): part.get_config() for part in reversed(self.parts)}
        parts = {law: {**first[law], "parameters": names} for law, names in self._grouped().items()}
        return {"prior": "product", "parts": parts}

    def _grouped(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for part, run in zip(self.parts, self.names, strict=True):
            groups.setdefault(str(part), []).extend(run)
        return groups

    def __str__(self) -> str:
        groups = (
            (law, names[:_NAMED], len(names) - _NAMED) for law, names in self._grouped().items()
        )
        return "; ".join(
            f"{law} ({', '.join(some)}{f' and {more} more' if more > 0 else ''})"
            for law, some, more in groups
        )
