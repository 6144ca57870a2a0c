"""The commands of the campaign that write: how each is started, and how it goes on."""

from __future__ import annotations

from typing import NamedTuple

RUN = "run"
"""The folder of every case, in the folder where its commands run."""
BASE = "../base/run"
"""A run that landscapes and explorations are made of."""

_ON = ("--resume", RUN, "--verbose", "0")
COMMON = (
    *(
        "--data",
        "../data.csv",
        "--num-walkers",
        "2",
        "--seed",
        "4",
        "--execution",
        "graph",
        "--threads",
        "1",
    ),
    *(
        "--step-size",
        "0.02",
        "--num-steps",
        "120",
        "--record-every",
        "7",
        "--trajectory-every",
        "5",
    ),
    *(
        "--num-burnin-steps",
        "11",
        "--checkpoint-seconds",
        "1e-9",
        "--verbose",
        "0",
        "--output",
        RUN,
    ),
)
BATCHES = ("--batch-size", "4")
LADDER = ("--num-replicas", "3", "--temperature-ratio", "1.5")
_EVIDENCE = (
    *(
        "--data",
        "../data.csv",
        "--seed",
        "4",
        "--execution",
        "graph",
        "--threads",
        "1",
        "--step-size",
        "0.1",
    ),
    *(
        "--num-walkers",
        "2",
        "--num-steps",
        "14",
        "--num-burnin-steps",
        "2",
        "--num-leapfrog-steps",
        "2",
    ),
    *("--sampler", "HMC", "--evidence-nodes", "3", "--num-particles", "4", "--num-moves", "3"),
    *(
        "--num-populations",
        "3",
        "--evidence-sampling",
        "sequential",
        "--verbose",
        "0",
        "--output",
        RUN,
    ),
)


class Family(NamedTuple):
    """A command that writes into the folder `run`: its name, the words that start it, those that go
    on with what a stop left (the same words, if there are none) and the command for them where it
    is another one, and whether `--overwrite` begins anew.
    """

    command: str
    start: tuple[str, ...]
    resume: tuple[str, ...] = ()
    resumer: str = ""
    overwrites: bool = True

    @property
    def onward(self) -> tuple[str, tuple[str, ...]]:
        """The command and the words that go on with what is there."""
        return self.resumer or self.command, self.resume or self.start

    @property
    def samples(self) -> bool:
        """Whether it leaves a run with a manifest and checkpoints."""
        return self.command in ("sample", "optimize")


def _sampling(*words: str, batches: tuple[str, ...] = BATCHES) -> Family:
    return Family("sample", (*COMMON, *batches, *words), _ON)


def _estimating(method: str) -> Family:
    return Family("evidence", (*_EVIDENCE, "--method", method), _ON)


def _without(flags: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        word
        for word, before in zip(words, ("", *words), strict=False)
        if not {word, before} & {*flags}
    )


_OF_FITS = _without(("--step-size", "--num-burnin-steps"), COMMON)

FAMILIES = {
    "BAOAB": _sampling(),
    "BAOAB, h5": _sampling("--trajectory-format", "h5"),
    "HMC": _sampling("--sampler", "HMC", "--num-leapfrog-steps", "2", batches=()),
    "SGHMC, h5": _sampling(
        "--sampler", "SGHMC", "--gradient-noise", "estimate", "--trajectory-format", "h5"
    ),
    "ensemble quasi-Newton": _sampling(
        "--covariance-blending", "1", "--covariance-after-steps", "10", "--num-walkers", "4"
    ),
    "projections": _sampling("--directions", "../directions.npy"),
    "penalty ladder": _sampling(*LADDER, "--exchange-every", "3", "--swap-rule", "penalty"),
    "well-tempered": _sampling(
        *LADDER,
        "--exchange-every",
        "1",
        "--bias",
        "well_tempered",
        "--sampler",
        "HMC",
        "--num-leapfrog-steps",
        "2",
        batches=(),
    ),
    "simulated tempering": _sampling(
        "--sampler", "simulated_tempering", "--exchange-every", "2", batches=()
    ),
    "TACT-HMC": _sampling("--sampler", "TACT-HMC"),
    "fit": Family("optimize", (*_OF_FITS, *BATCHES, "--optimizer", "adam"), _ON, "sample"),
    "evidence, stepping stone": _estimating("stepping_stone"),
    "evidence, smc": _estimating("smc"),
    "landscape": Family(
        "landscape", (BASE, "--range=-1:1:7", "--no-figures", "--quiet", "--output", RUN)
    ),
    "explore": Family(
        "explore",
        (
            *(
                BASE,
                "--leg-steps",
                "60",
                "--num-legs",
                "2",
                "--max-rounds",
                "2",
                "--num-candidates",
                "2",
            ),
            *(
                "--num-connected",
                "2",
                "--no-figures",
                "--quiet",
                "--execution",
                "graph",
                "--output",
                RUN,
            ),
        ),
        overwrites=False,
    ),
}

SLOW = (
    *("ensemble quasi-Newton", "penalty ladder", "well-tempered", "simulated tempering"),
    *("evidence, stepping stone", "evidence, smc", "explore"),
)
"""Those that take more than a second or two of processor time, and are killed half as often as
others.
"""
