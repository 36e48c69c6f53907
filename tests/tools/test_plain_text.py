"""What untrusted text looks like to a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.tools.plain import plain_text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("words\n\tand more", "words\n\tand more"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x1b_hidden\x9cx", "x"),
        ("\x1bc\x1b7\x1b(Bx", "x"),
        ("x\x1b[", "x"),
        ("x\x1b", "x"),
        ("a\x1b]0;never ended\nb", "a\nb"),
        ("10%\r20%\r100%\nnext\r\n", "100%\nnext\n"),
        ("a\bb\x07\x00", "a\\x08b\\x07\\x00"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("über 日本 😀", "über 日本 😀"),
    ],
)
def test_control_sequences_go_and_hidden_characters_show(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@given(st.text(st.sampled_from("ab\n\t\r\x1b[]0;m\x07\\\x9b\x9d\x00\x08P^_(B?"), max_size=40))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    plain = plain_text(text)
    assert not [character for character in plain if character not in "\n\t" and not character.isprintable()]
    assert plain_text(plain) == plain


@given(st.text(max_size=40))
def test_no_text_is_too_odd(text: str) -> None:
    plain = plain_text(text)
    assert not [c for c in plain if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
