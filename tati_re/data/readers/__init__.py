"""Readers of files: one format a file.

Each is a `Reader` of arrays or a `TableReader` of named columns. Adding one touches one new file and
one line of `registry.py`.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.data.contents import Contents as Contents
    from tati_re.data.readers.contract import Reader as Reader
    from tati_re.data.readers.contract import ReadRequest as ReadRequest
    from tati_re.data.readers.contract import TableReader as TableReader
    from tati_re.data.readers.registry import add_reader as add_reader
    from tati_re.data.readers.registry import readers as readers

__getattr__, __all__ = lazy_names(__name__)
