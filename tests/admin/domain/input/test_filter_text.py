"""What people type to filter lists: terms, words, quotes, and texts nobody thought of."""

from __future__ import annotations

import random

import pytest

from tickwheel_admin.domain.input.filter_text import Term, free_text, parse_filter, write_filter


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("   ", []),
        ("nightly report", [(None, "nightly"), (None, "report")]),
        ("owner:maria tag:critical x", [("owner", "maria"), ("tag", "critical"), (None, "x")]),
        ("OWNER:Maria", [("owner", "Maria")]),
        ('owner:"Maria K."', [("owner", "Maria K.")]),
        ('owner:"Maria K.', [("owner", "Maria K.")]),  # still being typed
        ('owner:"Maria\\', [("owner", "Maria")]),
        (r'tag:"say \"hi\" \\ bye"', [("tag", r'say "hi" \ bye')]),
        ("owner:", [("owner", "")]),
        ("owner: maria", [("owner", ""), (None, "maria")]),
        ('"owner:maria"', [(None, "owner:maria")]),
        ("https://x", [("https", "//x")]),
        ("10:30", [(None, "10:30")]),
        ("from:2026-11-22T10:30", [("from", "2026-11-22T10:30")]),
        ('a"b c', [(None, 'a"b'), (None, "c")]),
        ('""', []),
        ("发票\u3000tag:财务", [(None, "发票"), ("tag", "财务")]),
        ('job:"billing / close"x', [("job", "billing / close"), (None, "x")]),
    ],
)
def test_texts_and_their_terms(text: str, terms: list[tuple[str | None, str]]) -> None:
    assert parse_filter(text) == [Term(*term) for term in terms]


def test_what_is_written_is_read_again() -> None:
    dice = random.Random(5)
    letters = ' \t\n\u3000"\\:-#/%_aB1ü发,é\x00\u202e'
    for _ in range(3_000):
        text = "".join(dice.choice(letters) for _ in range(dice.randrange(30)))
        if dice.random() < 0.5:
            text = text.replace("a", dice.choice(["tag:", "owner:", 'state:"']))
        terms = parse_filter(text)
        written = write_filter(terms)
        assert parse_filter(written) == terms, text
        assert write_filter(parse_filter(written)) == written, text  # it comes to rest


def test_any_terms_survive_being_written() -> None:
    dice = random.Random(6)
    letters = ' "\\:x发'
    for _ in range(2_000):
        terms = [
            Term(dice.choice([None, "tag"]), "".join(dice.choices(letters, k=dice.randint(1, 6))))
            for _ in range(dice.randrange(4))
        ]
        assert parse_filter(write_filter(terms)) == terms


def test_free_words() -> None:
    assert free_text(parse_filter('owner:x nightly  "a b"')) == "nightly a b"
