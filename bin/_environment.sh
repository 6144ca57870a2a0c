# Sourced by the scripts of this folder. Makes .venv in the checkout on first use and sets `root` and `python`.
# Usage: source _environment.sh [test | docs]      (with what the test suite, or the site, needs)

root="$(CDPATH='' cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
python="$root/.venv/bin/python"

_fail() {
    echo "error: $1" >&2
    exit 2
}

# What the environment was made from: a changed file, or a checkout that was moved, installs again.
_fingerprint() {
    (cd "$root" && { pwd -P; cat setup.cfg constraints.txt pyproject.toml; } | cksum)
}

# The pinned TensorFlow has wheels for these versions only.
_find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

_ready() {
    [ -x "$python" ] && [ "$(cat "$root/.venv/.installed-$1" 2>/dev/null)" = "$(_fingerprint)" ]
}

_install() {
    local base="$1" extra="$2" target="."
    if [ -x "$python" ]; then
        echo "updating .venv (what it is made from has changed, or more is needed)" >&2
    else
        echo "making .venv (first use, about 2 minutes)" >&2
    fi
    rm -f "$root"/.venv/.installed-*
    "$base" -m venv "$root/.venv" || _fail "$base cannot make a virtual environment. Expected: its venv module (on Debian and Ubuntu the package python3-venv)."
    [ "$extra" = base ] || target=".[$extra]"
    (cd "$root" && "$python" -m pip install -qq --disable-pip-version-check -c constraints.txt -e "$target") ||
        _fail "pip could not install the packages of constraints.txt into .venv; its message stands above."
    _fingerprint >"$root/.venv/.installed-$extra"
    _fingerprint >"$root/.venv/.installed-base"
}

_prepare() {
    local base extra="${1:-base}"
    _ready "$extra" && return
    [ "$extra" = docs ] && _ready test && return # the test suite builds the site too
    base="$(_find_python)" || _fail "no Python from 3.11 to 3.13 was found. Received: python3, python3.13, python3.12, python3.11 in PATH. Expected: one of these versions."
    # Two first calls at once: the second waits. The lock is held by descriptor 9 of this shell, also after Python has ended,
    # and goes with the shell, so that a killed call leaves none behind. (flock the command is not on every system.)
    exec 9>"$root/.venv.lock" || _fail "$root cannot be written to. Expected: a checkout of your own."
    "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    _ready "$extra" || _install "$base" "$extra"
    exec 9>&-
}

_prepare "$@"
