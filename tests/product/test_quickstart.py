"""The quickstart refuses bad input in one line, before any work."""

import pytest

from tati_re.cli.quickstart import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--num-step", "300"], "Did you mean '--num-steps'?"),
        (["--num-steps", "many"], "invalid int value"),
        (["--num-steps", "5"], "--num-steps is too small. Received: 5. Expected: at least 200."),
        (["--output", "."], "is not empty"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, words):
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
