"""The fits that chains begin from are kept in the run folder."""

import numpy as np
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.runs import files
from tati_re.runs.fits import Fits, read_fits, write_fits

SHORT = {
    "data": "two_clusters",
    "hidden": [3],
    "loss": "binary_crossentropy",
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_walkers": 2,
    "fit_steps": 30,
    "verbose": 0,
}


def test_a_run_that_begins_from_fits_keeps_them(tmp_path):
    sim = tati_re.Simulation(**SHORT, walker_start="fit", seed=3)
    run = sim.sample(output=str(tmp_path / "a"), num_steps=20)
    fits = read_fits(run.folder)
    plain = tati_re.Simulation(**SHORT, walker_start="fresh", seed=3)
    fitted = plain.fit(
        stages=[{"num_steps": 22, "learning_rate": 0.01}, {"num_steps": 8, "learning_rate": 0.001}],
        batch_size=100,
    )
    assert fits.positions.shape == (2, sim.num_parameters())
    np.testing.assert_array_equal(fits.positions, plain.parameters)
    assert fits.held_out.size == 0 and fitted.manifest["kind"] == "fit"

    again = sim.sample(output=str(tmp_path / "b"), num_steps=20)
    assert read_fits(again.folder) is None


def test_a_run_from_elsewhere_has_no_fits(tmp_path):
    run = tati_re.Simulation(**SHORT, walker_start="fresh").sample(
        output=str(tmp_path / "a"), num_steps=20
    )
    assert read_fits(run.folder) is None


def test_the_density_of_held_out_rows_comes_back(tmp_path):
    density = np.array([-0.5, 0.25])
    write_fits(tmp_path, Fits(np.ones((2, 3)), held_out=np.array([1, 4]), density=density))
    np.testing.assert_array_equal(read_fits(tmp_path).density, density)


def test_fits_come_back_as_they_were_written(tmp_path):
    fits = Fits(np.eye(3), (np.ones((3, 2)),), np.array([4, 1]), np.array([7, 8, 9]))
    write_fits(tmp_path, fits)
    found = read_fits(tmp_path)
    np.testing.assert_array_equal(found.positions, fits.positions)
    np.testing.assert_array_equal(found.auxiliary[0], fits.auxiliary[0])
    np.testing.assert_array_equal(found.held_out, [4, 1])
    np.testing.assert_array_equal(found.steps, [7, 8, 9])


@pytest.mark.parametrize(
    "arrays",
    [
        {"positions": np.ones(3)},
        {"positions": np.full((2, 3), np.nan)},
        {"positions": np.array([["a"]])},
        {"held_out": np.array([-1])},
        {"held_out": np.array([0.5])},
        {"density": np.array([0.5, 0.5])},
        {"density": np.array([1])},
        {"steps": np.array([1, 2, 3])},
        {"auxiliary/0": np.ones((5, 1))},
    ],
)
def test_wrong_fits_are_refused_in_one_sentence(tmp_path, arrays):
    right = {"positions": np.ones((2, 3)), "held_out": np.array([0]), "steps": np.array([1, 2])}
    np.savez(tmp_path / files.MEMBERS, **(right | arrays))
    with pytest.raises(InputError, match=r"members\.npz contains no fits"):
        read_fits(tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    write_fits(tmp_path, Fits(np.ones((2, 3))))
    path = tmp_path / files.MEMBERS
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged"):
        read_fits(tmp_path)
