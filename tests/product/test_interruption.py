"""Stops by signals: what they raise and with which status, who keeps the handlers, the second
Ctrl-C. No TensorFlow.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tati_re.core.errors import InputError
from tati_re.core.process.exit_status import of_signal
from tati_re.core.process.interruption import (
    BARE,
    STOPS,
    Terminated,
    commanded,
    interruptible,
    saying,
    stop,
    stopping,
)

ALL = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"]


def send(name):
    os.kill(os.getpid(), signal.Signals[name])
    time.sleep(0)  # the handler runs here at the latest


@pytest.mark.parametrize("name", ALL)
def test_each_signal_is_a_stop_with_its_status(name):
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    before = {each: signal.getsignal(signal.Signals[each]) for each in ALL}
    kind = KeyboardInterrupt if name == "SIGINT" else Terminated
    with pytest.raises(kind) as raised, stopping("SIGUSR1"):
        send(name)
        time.sleep(5)
    assert str(raised.value) == "Interrupted."
    if name != "SIGINT":
        assert raised.value.code == of_signal(signal.Signals[name])
    said = []
    with interruptible(lambda: "", "SIGUSR1") as asked:
        said.append(asked())
        send(name)
        send("SIGTERM")
        said.append(asked())
    assert said == [0, signal.Signals[name]], (
        "the first one counts, and a batch system that sends two does no harm"
    )
    assert {each: signal.getsignal(signal.Signals[each]) for each in ALL} == before


def test_a_second_ctrl_c_interrupts_with_the_truth():
    with (
        pytest.raises(KeyboardInterrupt, match="step 4,200"),
        interruptible(lambda: "step 4,200") as asked,
    ):
        send("SIGINT")
        assert asked() == signal.SIGINT
        send("SIGINT")
        time.sleep(5)


def test_handlers_of_the_program_and_ignored_signals_stay():
    seen = []
    before = (
        signal.signal(signal.SIGTERM, lambda *_: seen.append("own")),
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    try:
        with stopping(), interruptible(lambda: "") as asked:
            send("SIGTERM")
            send("SIGHUP")
            assert asked() == 0 and seen == ["own"]
        with pytest.raises(Terminated), stopping("SIGTERM"):  # but for the one that was asked for
            send("SIGTERM")
            time.sleep(5)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])


def test_sentences_are_those_of_who_knows_most():
    for number in (signal.SIGINT, signal.SIGTERM):
        with (
            pytest.raises(STOPS, match=r"^inner$") as raised,
            saying(lambda: "outer"),
            saying(lambda: "inner"),
        ):
            stop(number, BARE)
        assert getattr(raised.value, "code", 143) == 143
    with pytest.raises(KeyboardInterrupt, match=r"^outer$"), saying(lambda: "outer"):
        raise KeyboardInterrupt
    with pytest.raises(Terminated, match=r"^$"), saying(lambda: "outer"):
        stop(signal.SIGTERM)  # said already


def test_elsewhere_than_in_the_main_thread_signals_cannot_be_had():
    found = []

    def run():
        with stopping(), commanded(), interruptible(lambda: "") as asked:
            found.append(asked())
        try:
            with stopping("SIGUSR1"):
                pass
        except InputError as error:
            found.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found[0] == 0 and found[1].startswith(
        "requeue_signal: signals reach only the main thread. Received: SIGUSR1"
    )


def command(body, *signals):
    """What a command with this body ends with, and says, when the signals come once it has printed
    a line.
    """
    lines = "import sys, time, threading\nfrom tati_re.cli.arguments import command\n"
    lines += "from tati_re.core.process.interruption import *\n"
    lines += textwrap.dedent(body) + "\nsys.exit(command('tati-test', body, []))"
    with subprocess.Popen(
        [sys.executable, "-c", lines], stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        for name in signals:
            process.send_signal(signal.Signals[name])
            time.sleep(0.3)
        out, err = process.communicate(timeout=30)
    return process.returncode, out + err


WAITING = """
def body(argv):
    with saying(lambda: "nothing is kept"):
        print("ready", flush=True)
        time.sleep(30)
"""
DEAF = """
class Deaf(threading.Thread):
    def run(self):
        time.sleep(30)

def body(argv):
    with interruptible(lambda: "The last checkpoint is of step 4,200.") as asked:
        thread = Deaf()
        thread.start()
        print("ready", flush=True)
        while thread.is_alive():  # no word from Python until it ends, like a compiled call
            try:
                thread.join()
            except BaseException:
                pass
"""


def test_commands_end_with_one_sentence_and_the_status():
    assert command(WAITING, "SIGTERM") == (143, "nothing is kept\n")
    assert command(WAITING, "SIGINT") == (130, "nothing is kept\n")
    assert command(DEAF, "SIGINT", "SIGINT") == (
        130,
        "\nLeft at once. The last checkpoint is of step 4,200.\n",
    )
