"""Mini-batches as a pure function of the seed, the walker and the step."""

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.data.streams import BATCHES, stream

_REPLACEMENT_BLOCK = 16_384
"""Indices drawn by one call when sampling with replacement; a part of what defines the stream, like
an epoch.
"""

_PARTITION = 2**64 - 1
"""In place of the number of a sweep, or of a walker: what symmetric sweeps draw once, or for all
walkers.
"""


@front_doors
class Batches:
    """Mini-batches of a run, independent for each walker and without state.

    Step s uses batch number s, counted from 0. With `sampling="epochs"` the batches of an epoch are
    consecutive pieces of one random order of the examples, which is new in every epoch. The last
    batch is short if `batch_size` does not divide `num_examples`. The estimate num_examples / true
    size × (sum over the batch) of a sum over all examples is unbiased for each batch, including the
    short one. With `sampling="replacement"` each index is drawn independently.

    With `sampling="symmetric"` the examples of a walker are divided into m batches once for the
    run. A sweep uses them in random order and then backwards; each sweep draws a new order. If
    `batch_size` does not divide `num_examples`, batches differ by at most one example. The mean
    over a sweep of the estimate m × (sum over the batch) is the sum over all examples.

    The order of epoch e for walker w comes from Philox with key (seed, purpose) and counter (e, w).
    It does not depend on the number of walkers, on earlier calls, or on the step at which a run was
    resumed. With `shuffle=False` every epoch has the order of the data, for all walkers, and a
    symmetric sweep runs through it forwards and backwards. Batches are then not independent, and
    gradients over less than an epoch are biased if the order matters.

    Args:
        num_examples: Number of examples in the data set, at least 1.
        batch_size: Number of examples in a batch, 1 to num_examples; None means all of them.
        num_walkers: Number of walkers, at least 1.
        seed: Integer in [0, 2**63).
        sampling: "epochs", "symmetric" or "replacement". Default: epochs.
        shared: Whether all walkers use the same batches, those for walker 0. Default: False.
        stage: Number of the stage of a fit, a part of the key: stages share no random numbers.
            Default: 0.
        shuffle: Whether to draw the order of each epoch. Default: True.
        first_walker: Number of the first walker, for a part of the walkers of a run. Default: 0.

    Attributes:
        full: Whether every batch is the whole data set in order, so nothing needs to be gathered.
        batch_size: Number of examples in a batch, an integer even for None.
        steps_per_epoch: Number of batches that visit every example once: m = ceil(num_examples /
            batch_size).
        mean_size: num_examples / m, which divides the sum over a symmetric batch in the estimate of
            a mean. None for the other kinds, which use the true size of the batch.

    Raises:
        InputError: The batch is larger than the data, or another argument is out of range.

    Examples:
        >>> batches = Batches(num_examples=6, batch_size=4, num_walkers=2, seed=0)
        >>> indices, sizes = batches.indices(first_step=0, num_steps=2)
        >>> indices.shape, sizes.tolist()
        ((2, 2, 4), [4, 2])
    """

    def __init__(
        self,
        num_examples: int,
        batch_size: int | None,
        num_walkers: int,
        seed: int,
        sampling: str = "epochs",
        shared: bool = False,
        stage: int = 0,
        shuffle: bool = True,
        first_walker: int = 0,
    ) -> None:
        refuse_if(
            num_examples < 1, "The data set has no examples.", num_examples, "at least 1 example"
        )
        if batch_size is not None and batch_size > num_examples:
            raise InputError(
                "batch_size is larger than the data set.", batch_size, f"1 to {num_examples}"
            )
        if batch_size is not None and batch_size < 1:
            raise InputError("batch_size is not positive.", batch_size, f"1 to {num_examples}")
        refuse_if(num_walkers < 1, "num_walkers is not positive.", num_walkers, "at least 1")
        if sampling not in ("epochs", "symmetric", "replacement"):
            raise InputError(
                "batch_sampling has an unknown value.",
                sampling,
                "'epochs', 'symmetric' or 'replacement'",
            )
        if not shuffle and sampling == "replacement":
            received = "batch_sampling = replacement"
            raise InputError(
                "shuffle is off, but batch_sampling draws the examples at random.",
                received,
                "batch_sampling = epochs",
            )
        symmetric = sampling == "symmetric"
        self.num_examples = int(num_examples)
        self.batch_size = int(num_examples if batch_size is None else batch_size)
        self.num_walkers = int(num_walkers)
        self.seed = seed
        self.sampling = sampling
        self.shared = bool(shared)
        self.shuffle = bool(shuffle)
        self._stage = stage
        self._first = 0 if shared else first_walker
        self.full = batch_size is None or (
            self.batch_size == self.num_examples and sampling != "replacement"
        )
        self.steps_per_epoch = -(-self.num_examples // self.batch_size)
        self.mean_size = self.num_examples / self.steps_per_epoch if symmetric else None
        self._rows = 1 if self.shared else self.num_walkers
        self._philox = stream(seed, BATCHES, stage=stage).bit_generator
        self._state = self._philox.state
        self._generator = np.random.Generator(self._philox)
        self._parts: np.ndarray | None = None
        if symmetric:
            self._block_steps = 2 * self.steps_per_epoch
            small, longer = divmod(self.num_examples, self.steps_per_epoch)
            self._part_sizes = small + (np.arange(self.steps_per_epoch) < longer).astype(np.int32)
            self._longer = longer or self.steps_per_epoch
        elif sampling == "epochs":
            self._block_steps = self.steps_per_epoch
            left = self.num_examples - np.arange(0, self.num_examples, self.batch_size)
            self._block_sizes = np.minimum(self.batch_size, left).astype(np.int32)
        else:
            self._block_steps = max(1, _REPLACEMENT_BLOCK // self.batch_size)
            self._block_sizes = np.full(self._block_steps, self.batch_size, np.int32)
        self._cached = -1
        self._block: np.ndarray | None = None

    def indices(self, first_step: int, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of the examples in consecutive steps.

        Args:
            first_step: The first step, at least 0.
            num_steps: Number of steps, at least 0.

        Returns:
            int32 indices `(num_steps, walkers, batch_size)` (1 walker if shared), with a short
            batch padded by index 0, and int32 true sizes `(num_steps,)`, the same for all walkers.
        """
        indices = np.empty((num_steps, self._rows, self.batch_size), np.int32)
        sizes = np.empty(num_steps, np.int32)
        done = 0
        while done < num_steps:
            block, start = divmod(first_step + done, self._block_steps)
            stop = min(self._block_steps, start + num_steps - done)
            piece = slice(done, done + stop - start)
            if self.sampling == "symmetric":
                order = self._sweep(block)[:, start:stop].T
                indices[piece] = self._partition()[np.arange(self._rows), order]
                sizes[piece] = self._part_sizes[order[:, 0]]
            else:
                indices[piece] = self._blocks(block)[:, start:stop].swapaxes(0, 1)
                sizes[piece] = self._block_sizes[start:stop]
            done = piece.stop
        return indices, sizes

    def from_walker(self, first: int) -> "Batches":
        """Returns the mini-batches of other walkers of the run.

        Args:
            first: Number of the first of these walkers.

        Returns:
            Mini-batches of as many walkers.
        """
        return Batches(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            num_walkers=self.num_walkers,
            seed=self.seed,
            sampling=self.sampling,
            shared=self.shared,
            stage=self._stage,
            shuffle=self.shuffle,
            first_walker=first,
        )

    def _blocks(self, block: int) -> np.ndarray:
        """Returns `(walkers, steps, batch_size)`: one epoch, or one block of draws, of every
        walker.
        """
        if self._cached != block or self._block is None:
            if self._block is None:
                self._block = np.zeros((self._rows, self._block_steps, self.batch_size), np.int32)
            self._cached = -1
            flat = self._block.reshape(self._rows, -1)
            for walker in range(self._rows):
                if self.full or not self.shuffle:
                    flat[walker, : self.num_examples] = np.arange(self.num_examples)
                elif self.sampling == "epochs":
                    flat[walker, : self.num_examples] = self._at(block, walker).permutation(
                        self.num_examples
                    )
                else:
                    flat[walker] = self._at(block, walker).integers(
                        self.num_examples, size=flat.shape[1]
                    )
            self._cached = block
        return self._block

    def _partition(self) -> np.ndarray:
        """Returns `(walkers, m, batch_size)`: the batches of every walker, drawn once."""
        if self._parts is None:
            self._parts = np.zeros((self._rows, self.steps_per_epoch, self.batch_size), np.int32)
            valid = np.arange(self.batch_size) < self._part_sizes[:, None]
            for walker in range(self._rows):
                ordered = not self.shuffle or self.full
                examples = np.arange(self.num_examples)
                self._parts[walker, valid] = (
                    examples if ordered else self._at(_PARTITION, walker).permutation(examples)
                )
        return self._parts

    def _sweep(self, block: int) -> np.ndarray:
        """Returns `(walkers, 2 m)`: the order of one sweep, forwards and backwards. The places of
        the batches that have an example more are those of all walkers, since a step has one
        size.
        """
        if self._cached != block or self._block is None:
            m = self.steps_per_epoch
            longer = self._longer
            order = np.tile(np.arange(m), (self._rows, 1))
            if self.shuffle:
                permutation = self._at(block, _PARTITION).permutation(m)
                for walker in range(self._rows):
                    generator = self._at(block, walker)
                    parts = [
                        generator.permutation(longer),
                        longer + generator.permutation(m - longer),
                    ]
                    order[walker] = np.concatenate(parts)[permutation]
            self._block = np.concatenate([order, order[:, ::-1]], axis=1)
            self._cached = block
        return self._block

    def _at(self, block: int, walker: int) -> np.random.Generator:
        # Resetting one generator's counter takes 3 us, building a new one 16 us: it matters for
        # short epochs.
        self._state["state"]["counter"][2:] = (
            block,
            walker if walker == _PARTITION else self._first + walker,
        )
        self._philox.state = self._state
        return self._generator
