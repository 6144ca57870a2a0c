"""The documentation as a site: it builds, no link in it leads nowhere, and it needs nothing from
other hosts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"""<(?:script|link|img)[^>]*(?:src|href)=["']?https?://""")


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        "docs/mkdocs.yml",
        "-d",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    pages = {
        str(page.relative_to(tmp_path)): page.read_text(encoding="utf-8")
        for page in tmp_path.rglob("*.html")
    }
    assert {
        "index.html",
        "start.html",
        "architecture.html",
        "reference/tati_re.exchange.html",
    } <= set(pages)
    assert (tmp_path / "search" / "search_index.json").exists()
    assert 'id="tati_re.exchange.ReplicaExchange"' in pages["reference/tati_re.exchange.html"]
    assert [name for name, text in pages.items() if ELSEWHERE.search(text)] == []
    assert "reference/tati_re.html#tati_re.Simulation" in pages["api.html"]
