"""Texts that are numbers to a reader but not to a program: their kinds, and what to do about each."""

import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

UNKNOWN = ("", "na", "n/a", "nan", "nat", "null", "none", "?")
"""Cells without a value, in lower case."""

_PLACEHOLDERS = (
    "-|--|---|–|—|.|..|...|*|**|x|n.a.|n.a|<na>|-nan|nil|nd|n/d|n.d.|tbd|missing|unknown|unk|"
    "unavailable|not available|not applicable|no data|empty|blank|undefined|#n/a|#n/a n/a|#na|"
    "#div/0!|#value!|#ref!|#num!|#name?|#null!|1.#ind|-1.#ind|1.#qnan|-1.#qnan"
)
PLACEHOLDERS = frozenset(_PLACEHOLDERS.split("|"))
"""What people and programs write in place of a missing number, in lower case. Most of them also
name categories, so that they mean a missing value among numbers alone.
"""

MISSING = "numbers in all rows: use dropna or fillna of pandas, or SimpleImputer of scikit-learn"
MISSING_TEXT = (
    "a text in all rows: dropna of pandas removes rows, fillna('missing') makes empty cells a "
    "category"
)
FINITE = "finite numbers in all rows"
DATES = (
    "numbers, such as days since a first date: (x - x.min()) / pandas.Timedelta(days=1); "
    "input_columns leaves a column out"
)
PLAIN = (
    "plain numbers such as -1234.5: no units, percent or currency signs, no thousands "
    "separators, and a decimal comma only in a file with semicolons"
)
TIMES = "numbers, such as the minutes since midnight"
FRACTIONS = "decimal numbers, such as 0.1 for 1/10"
LIMITS = "numbers: replace a value such as <9.5 by a number, or leave its row out"
RANGES = "numbers: the middle of each range, or its ends in two columns"
UNCERTAIN = "plain numbers, with uncertainties in a separate column"
FORTRAN = "numbers: x.str.replace('D', 'E').astype(float) converts Fortran exponents"

_LONGEST = 64
"""Letters of a cell that may be a number; a longer one is a text."""

_FORTRAN = re.compile(r"([-+]?(?:\d+\.\d*|\.\d+))[dD]([-+]?\d+)|([-+]?\d+)[dD]([-+]\d+)")
_MINUS = "−–‒﹣－"
_SIGN = rf"[-+{_MINUS}]?\s*"
_NUMBER = r"(?:\d[\d.,'’_]*(?: \d{3})*(?:[.,]\d+)?|[.,]\d+)(?:[eE][-+]?\d+)?"
_CODES = (
    "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|EURO|EUROS|GBP|HKD|HUF|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|"
    "RMB|RON|RUB|SEK|SGD|THB|TRY|TWD|USD|ZAR|DOLLARS?|CENTS?|KR|RS|ZŁ|FR|TL"
)
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_UNIT_NAMES = (
    "nm um µm μm mm cm dm m km in inch inches ft feet foot yd yard yards mi mile miles "
    "ng ug µg μg mcg mg g kg t ton tons tonnes lb lbs oz st "
    "ns us µs μs ms s sec secs second seconds min mins minute minutes h hr hrs hour hours d day "
    "days wk week weeks mo month months y yr yrs year years "
    "K C F °C °F ° deg rad grad "
    "ml mL cl dl dL l L liter liters litre litres gal m2 m3 cm2 cm3 km2 ha acre acres "
    "sqft sqm sq "
    "Pa hPa kPa MPa GPa bar mbar atm psi mmHg Torr "
    "eV keV MeV GeV TeV J kJ MJ GJ cal kcal Wh kWh MWh N kN W kW MW GW hp "
    "A mA V mV kV Ohm ohm Ω Hz kHz MHz GHz T mT "
    "mol mmol µmol nmol M mM µM nM U IU ppm ppb dB lm lx cd "
    "B kB KB MB GB TB bit bits byte bytes px "
    "mph kmh kph knots rpm bpm mpg "
    "k K M Mio mio mn bn thousand million billion trillion x times "
    "pts pt points pct percent"
)
_UNITS = frozenset(_UNIT_NAMES.split())


@dataclass(frozen=True)
class Numeral:
    """How a number is written that a program does not read.

    Args:
        looks: What the text looks like, for a message.
        advice: What it should have been.
        may_name: Whether such texts also name classes, as `18-64` and `>50K` do.
    """

    looks: str
    advice: str
    may_name: bool = False


_DATE = Numeral("a date", DATES)
_TIME = Numeral("a time or a ratio", TIMES)
_FRACTION = Numeral("a fraction", FRACTIONS)
_MARKED = Numeral("a percentage", PLAIN)
_MONEY = Numeral("an amount of money", PLAIN)
_NEGATIVE = Numeral("a negative number in parentheses", PLAIN)
_TYPESET = Numeral("a number with a typographic minus sign", PLAIN)
_GROUPED = Numeral("a number with thousands separators", PLAIN)
_COMMA = Numeral("a number with a decimal comma", PLAIN)
_SPACED = Numeral("a number that contains a space", PLAIN)
_UNIT = Numeral("a number with a unit", PLAIN)
_SUFFIX = Numeral("a number with a suffix", PLAIN, may_name=True)
_LIMIT = Numeral("a limit", LIMITS, may_name=True)
_RANGE = Numeral("a range", RANGES, may_name=True)
_UNCERTAIN = Numeral("a number with its uncertainty", UNCERTAIN)
_POWER = Numeral("a number with a power of ten", PLAIN)
_EXPONENT = Numeral("a number with a Fortran exponent", FORTRAN)

_PATTERNS = tuple(
    (re.compile(pattern, re.I), numeral)
    for pattern, numeral in (
        (r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d\d)\b(?![./-]).*", _DATE),
        (r"\d{4}([./-])\d{1,2}\1\d{1,2}(\D.*)?", _DATE),
        (rf"\d{{1,2}}(st|nd|rd|th)?[ .-]*({_MONTHS})\.?([ ,.-]*\d{{2,4}}\b.*)?", _DATE),
        (rf"({_MONTHS})\.?[ .-]+(\d{{1,2}}(st|nd|rd|th)?[ ,.-]+)?\d{{2,4}}\b.*", _DATE),
        (r"\d{1,4}:\d{1,2}(:\d\d([.,]\d+)?)?\s*([ap]\.?m\.?|h|uhr)?", _TIME),
        (r"\d{1,2}\s*[ap]\.?m\.?", _TIME),
        (rf"{_SIGN}(\d+ )?\d+\s*[/⁄]\s*\d+", _FRACTION),
        (rf"{_SIGN}{_NUMBER}\s*[%‰]", _MARKED),
        (rf"\(\s*\$?£?€?\s*{_NUMBER}\s*[%‰$£€]?\s*\)", _NEGATIVE),
        (rf"[{_MINUS}]\s*{_NUMBER}", _TYPESET),
        (r"[-+]?\d{1,3}([,'’ ]\d{3})+([.,]\d+)?", _GROUPED),
        (r"[-+]?\d{1,3}(\.\d{3})+,\d+|[-+]?\d{1,3}(\.\d{3}){2,}", _GROUPED),
        (r"[-+]?\d{1,3}(,\d{2})+,\d{3}(\.\d+)?|[-+]?\d+(_\d+)+(\.\d+)?", _GROUPED),
        (r"[-+]?\d*,\d+(e[-+]?\d+)?|[-+]?\d+,", _COMMA),
        (rf"[-+]\s+{_NUMBER}|[-+]?\d+( [.,]\s?|[.,] )\d+", _SPACED),
        (rf"{_NUMBER}\s*(±|\+/-|\+-)\s*{_NUMBER}.*|{_NUMBER}\(\d+\)", _UNCERTAIN),
        (rf"([<>≤≥≦≧]=?|=[<>])\s*{_SIGN}{_NUMBER}\s*\D*|[~≈]\s*{_SIGN}{_NUMBER}\s*\D*", _LIMIT),
        (rf"{_SIGN}{_NUMBER}\s*(-|–|—|\.\.\.?|…|to|bis)\s*{_SIGN}{_NUMBER}\s*\D*", _RANGE),
        (rf"{_NUMBER}\s*\+", _RANGE),
        (rf"{_SIGN}{_NUMBER}\s*[x×·*]\s*10\s*\^?\s*{_SIGN}\d+", _POWER),
        (r"[-+]?\d+\.\d*[-+]\d{3}", _EXPONENT),
    )
)
_SUFFIXED = re.compile(
    rf"{_SIGN}({_NUMBER})(\s*)([^\W\d_°µμΩ][^\d]*|[°µμΩ\"'′″][^\d]*|[^\W\d_]\D*[23])"
)
_ORDINAL = re.compile(r"\d+\s*(st|nd|rd|th)\b.*", re.I)


def number_in(cell: str) -> float:
    """The number that a cell is, also with an exponent of Fortran as in `1.5D+02`.

    Args:
        cell: The text of a cell.

    Raises:
        ValueError: The text is not a number.
    """
    if match := _FORTRAN.fullmatch(cell.strip()):
        mantissa = match[1] or match[3]
        exponent = match[2] or match[4]
        return float(f"{mantissa}e{exponent}")
    return float(cell.replace("_", "?"))


def is_number(cell: str, fortran: bool = True) -> bool:
    """Whether `number_in` reads a cell.

    Args:
        cell: The text of the cell.
        fortran: Whether exponents of Fortran count, as in `1.5D+02`. Default: True.
    """
    if not fortran and _FORTRAN.fullmatch(cell.strip()):
        return False
    with suppress(ValueError):
        number_in(cell)
        return True
    return False


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in (*UNKNOWN, "inf", "-inf", "+inf")


def is_placeholder(cell: str) -> bool:
    """Whether a cell among numbers says that there is no value, as `is_missing` or as `-` does."""
    return is_missing(cell) or cell.strip().lower() in PLACEHOLDERS


def numeral_of(cell: str) -> Numeral | None:
    """The kind of number that a text looks like, or None for a word.

    Args:
        cell: A text that is no number to a program.
    """
    plain = unicodedata.normalize("NFKC", cell).strip()
    if len(plain) > _LONGEST:
        return None
    if _FORTRAN.fullmatch(plain):
        return _EXPONENT
    for pattern, numeral in _PATTERNS:
        if pattern.fullmatch(plain):
            return numeral
    if _is_money(plain):
        return _MONEY
    if re.search(r"\d", plain):
        with suppress(ValueError):
            datetime.fromisoformat(plain)
            return _DATE
    return _with_unit(plain)


def _is_money(text: str) -> bool:
    """Whether a text is a number with the sign or the code of a currency before or behind it."""
    signs = "".join(sorted({letter for letter in text if unicodedata.category(letter) == "Sc"}))
    sign = rf"(?:[A-Z]{{0,3}}[{re.escape(signs)}]|{_CODES})" if signs else rf"(?:{_CODES})"
    pattern = rf"{_SIGN}{sign}\.?\s*{_SIGN}{_NUMBER}|{_SIGN}{_NUMBER}\s*{sign}\.?"
    return re.fullmatch(rf"(?:{pattern})([.,]?[-–—]+)?", text, re.I) is not None


def _with_unit(text: str) -> Numeral | None:
    """A number with a unit of measurement, or with another suffix that may make it a name."""
    match = _SUFFIXED.fullmatch(text)
    if match is None or _ORDINAL.fullmatch(text):
        return None
    number = match[1]
    space = match[2]
    suffix = match[3].strip()
    parts = [re.sub(r"[\^\-\d²³().]", "", part) for part in re.split(r"[/·*\s]+", suffix)]
    known = all(part in _UNITS for part in parts if part)
    fraction = re.search(r"[.,]\d", number) is not None
    # 2D, 3M or 1A are names as often as numbers with a unit.
    if fraction or (known and (space or len(suffix) > 1)):
        return _UNIT
    return _SUFFIX
