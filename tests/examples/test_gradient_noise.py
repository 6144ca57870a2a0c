"""The example on the noise of gradients, layer by layer."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tests.scripts import example

noise = example("gradient_noise")


def test_parts_of_tests_and_blocks():
    """Gaussian gradients pass, those with a common heavy-tailed scale fail, their Gaussian twins
    pass.
    """
    random = np.random.default_rng(0)
    gradients = random.standard_normal((200, 400))
    found, like, (low, high) = noise.fractions(gradients, 0)
    assert low <= found <= high and low <= like <= high
    found, like, (_, high) = noise.fractions(
        gradients / np.sqrt(random.chisquare(2, (200, 1)) / 2), 0
    )
    assert found > 0.5 and like <= high
    names = [
        "a/kernel[0]",
        "a_bn/gamma[0]",
        "b/kernel[0]",
        "c/kernel[0]",
        "d/kernel[0]",
        "e/kernel[0]",
        "f/kernel[0]",
    ]
    names += ["g/kernel[0]", "h/kernel[0]", "i/kernel[0]", "j/kernel[0]", "j/bias[0]"]
    blocks = noise.blocks_of(names, 1)
    expected = ["stem"] * 2 + ["block 1"] * 2 + ["block 2"] * 3 + ["block 3"] * 3 + ["head"] * 2
    assert blocks == expected


def test_bad_input_is_one_sentence(capsys):
    assert noise.main([]) == 2
    assert capsys.readouterr().err.startswith("error: --data is missing. ")
    assert noise.main(["--quick", "--batch-size", "0"]) == 2
    assert (
        capsys.readouterr().err
        == "error: --batch-size is out of range. Received: 0. Expected: 1 to 128.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("network", ["lstm", "resnet"])
def test_a_network_small(network, tmp_path):
    assert noise.main(["--quick", "--network", network, "--output", str(tmp_path)]) == 0
    lines = list(csv.DictReader((tmp_path / f"{network}.csv").read_text().splitlines()))
    assert {line["step"] for line in lines} == {"0", "2"} and len(
        {line["layer"] for line in lines}
    ) >= 5
    assert all(0 <= float(line["fraction"]) <= 1 for line in lines)
    assert (tmp_path / f"{network}.png").stat().st_size > 10_000
