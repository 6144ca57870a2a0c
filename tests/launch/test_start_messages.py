"""The messages at the start of a run: a list of rules, none of which is forgotten."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

from tati_re.launch import start_messages


def test_every_rule_is_in_the_list_once():
    """A rule is a function of the facts alone; helpers begin with an underscore."""
    functions = [
        function
        for name, function in vars(start_messages).items()
        if inspect.isfunction(function)
        and function.__module__ == start_messages.__name__
        and list(inspect.signature(function).parameters) == ["facts"]
        and not name.startswith("_")
    ]
    assert sorted(map(id, functions)) == sorted(map(id, start_messages.RULES))


def facts_of(**options):
    """Facts of a run without data, with these options."""
    known = SimpleNamespace(num_steps=100, explicit=set(options), **options)
    request = SimpleNamespace(options=known, record_every=500, trajectory_every=200)
    return start_messages.StartFacts(SimpleNamespace(request=request), None)


def test_rows_that_are_never_recorded():
    said = list(start_messages.of_records(facts_of()))
    assert said == ["record_every 500 exceeds num_steps 100: no row will be recorded."]


def test_positions_that_are_never_stored_if_they_were_asked_for():
    said = list(start_messages.of_records(facts_of(trajectory_every=200)))
    assert said[1:] == ["trajectory_every 200 exceeds num_steps: no position will be stored."]


def test_messages_come_in_the_order_of_the_list(monkeypatch):
    rules = [lambda facts: ["first"], lambda facts: [], lambda facts: ["second", "third"]]
    monkeypatch.setattr(start_messages, "RULES", rules)
    assert list(start_messages.start_messages(None, None)) == ["first", "second", "third"]
