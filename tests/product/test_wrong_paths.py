"""Every command answers a path of another kind with one sentence that says what the path is."""

import pytest

from tati_re.cli import (
    analyse,
    compare,
    explore,
    export,
    inputspace,
    landscape,
    optimize,
    predict,
    report,
    sample,
)

COMMANDS = {
    "predict": (predict, []),
    "analyse": (analyse, []),
    "report": (report, []),
    "export": (export, []),
    "landscape": (landscape, []),
    "explore": (explore, []),
    "inputspace": (inputspace, []),
    "resume": (sample, ["--resume"]),
    "verify": (compare, ["--verify"]),
}
PATHS = {
    "table.csv": "table.csv is a file, not a run folder.",
    "tabel": "The run folder tabel does not exist. Did you mean 'table'?",
    "table": "The folder table is not a run folder: it has no manifest.toml.",
    "plane": "Received: a folder of tati-landscape. Expected: a run folder of tati-sample",
    "inputs": "Received: a folder of tati-inputspace. Expected: a run folder",
    "logz": "Received: a folder of tati-evidence. Expected: a run folder",
    "minima": "Received: a folder of tati-explore. Expected: a run folder",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("")
    (tmp_path / "table").mkdir()
    files = {"plane": "landscape", "inputs": "inputspace", "logz": "evidence"}
    for name, file in (files | {"minima": "exploration"}).items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{file}.toml").write_text("")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_run_folder_is_called_what_it_is(capsys, name, path):
    command, words = COMMANDS[name]
    assert command.main([*words, path]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("error: ") and PATHS[path] in err


def test_inputs_among_the_run_folders_are_told_their_option(capsys):
    assert predict.main(["my run", "table.csv"]) == 2
    err = capsys.readouterr().err
    assert "tati-predict 'my run' --data table.csv" in err and err.count("\n") == 1
    assert predict.main(["table.csv"]) == 2
    assert "tati-predict RUN --data table.csv" in capsys.readouterr().err


def test_a_training_is_resumed_by_another_command(capsys):
    assert optimize.main(["--resume", "runs/fit"]) == 2
    err = capsys.readouterr().err
    assert "--resume is not a known option of tati-optimize." in err
    assert "tati-sample --resume RUN" in err


def test_an_empty_file_of_parameters_names_its_option(capsys):
    words = "--data two_clusters --sampler BAOAB --step-size 0.01 --num-steps 10 --quiet"
    assert sample.main([*words.split(), "--parameters", "table.csv"]) == 2
    assert "error: --parameters: The file table.csv is empty." in capsys.readouterr().err
