"""Runs in the formats of other programs: ArviZ' NetCDF, CSV, Parquet."""

import sys

import numpy as np
import pandas as pd
import pytest

from tati_re.analysis import to_arviz, write_arviz
from tati_re.analysis.export import write_table
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tests.made_runs import made_run

SHAPES = {"dense/kernel": (2, 3), "dense/bias": (3,)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    generator = np.random.default_rng(1)
    chains = {"potential": generator.standard_normal((2, 40)), "loss": generator.random((2, 40))}
    positions = generator.standard_normal((2, 40, 9))
    folder = tmp_path_factory.mktemp("export") / "run"
    return made_run(folder, chains, positions, burnin=100, shapes=SHAPES), positions


def test_arviz(run, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    run, positions = run
    path = write_arviz(run, tmp_path / "run.nc", thin=2)
    tree = xarray.open_datatree(path, engine="h5netcdf")
    posterior, statistics = tree["posterior"], tree["sample_stats"]
    kernel = posterior["dense.kernel"]
    assert kernel.dims[:2] == ("chain", "draw") and kernel.shape == (2, 15, 2, 3)
    np.testing.assert_array_equal(kernel.values.reshape(2, 15, 6), positions[:, 10::2, :6])
    np.testing.assert_array_equal(posterior["dense.bias"], positions[:, 10::2, 6:])
    rows = run.run_info
    kept = rows[(rows["walker"] == 1) & (rows["step"] > 100)]["potential"].to_numpy()[::2]
    np.testing.assert_array_equal(statistics["potential"][1], kept)
    np.testing.assert_array_equal(statistics["energy"][1], kept)
    assert statistics["step"].values.tolist() == list(range(110, 401, 20))
    assert posterior.attrs["inference_library"] == "tati_re" and posterior.attrs["sampler"] == "BAOAB"


def test_arviz_takes_it(run, tmp_path):
    base = pytest.importorskip("arviz_base", reason="arviz-base is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    tree = xarray.open_datatree(write_arviz(run[0], tmp_path / "run.nc"), engine="h5netcdf")
    assert base.extract(tree, var_names="dense.bias").shape == (3, 60)


def test_arviz_of_runs_without_positions_or_with_projections(run, tmp_path):
    pytest.importorskip("xarray", reason="xarray is not installed")
    bare = made_run(tmp_path / "bare", {"loss": np.random.default_rng(1).random((2, 9))})
    assert list(to_arviz(bare).children) == ["sample_stats"]
    positions = np.random.default_rng(2).random((2, 9, 2))
    short = made_run(tmp_path / "short", {"loss": positions[..., 0]}, positions, extra={"objects": ["directions"]})
    assert to_arviz(short)["posterior"]["projection"].shape == (2, 9, 2)


def test_the_command(run, tmp_path, capsys):
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    folder = str(run[0].folder)
    assert analyse.main([folder, "--to", "arviz", "--output", str(tmp_path / "a")]) == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["arviz.nc"]
    arguments = [folder, "--what", "averages", "--no-figures", "--quiet", "--to"]
    assert analyse.main([*arguments, "csv", "--output", str(tmp_path / "csv")]) == 0
    assert pd.read_csv(tmp_path / "csv" / "averages.csv")["observable"].tolist() == ["potential", "loss"]
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert analyse.main([*arguments, "parquet", "--output", str(tmp_path / "parquet")]) == 0
    assert pd.read_parquet(tmp_path / "parquet" / "averages.parquet")["observable"].tolist() == ["potential", "loss"]


def test_bad_input(run, tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [1.0]})
    with pytest.raises(InputError, match="csv or parquet"):
        write_table(table, tmp_path / "a", "excel")
    with pytest.raises(InputError, match="cannot be written"):
        write_table(table, tmp_path / "no" / "a")
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(InputError, match=r"xarray and h5netcdf.*pip install 'tati_re\[arviz\]'"):
        to_arviz(run[0])
