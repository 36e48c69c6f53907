"""What is read of a model's file, sound or not."""

import struct
from pathlib import Path

import pytest
from gguf_file import array, gguf, number, string
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tugline.providers.gguf import GgufError, GgufHeader, read_header

WHOLE = gguf(
    string("general.architecture", "llama"),
    string("general.name", "Small"),
    array("tokenizer.ggml.tokens", ["a", "bc", ""]),
    array("tokenizer.ggml.scores", [0.0, 1.0]),
    number("llama.context_length", 2048),
    string("tokenizer.chat_template", "{% if tools %}"),
)


def test_a_header_says_what_the_model_is(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)
    header = read_header(str(path))
    assert header == GgufHeader("llama", "Small", 2048, "{% if tools %}")
    assert header.tools


def test_what_a_header_does_not_say_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(number("general.architecture", 7), number("llama.context_length", 0)))
    assert read_header(str(path)) == GgufHeader("", "", 0, "")


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for name in ("one", "other"):
        path.write_bytes(gguf(string("general.name", name)))
        assert read_header(str(path)).name == name


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match="folder"):
        read_header(str(tmp_path))


def test_a_device_is_not_opened() -> None:
    with pytest.raises(GgufError, match="no regular file"):
        read_header("/dev/zero")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"GGUF", "too short"),
        (b"#!/bin/sh\necho this is no model at all\n", "no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "damaged"),
        (gguf(struct.pack("<Q", 2**62) + b"x"), "damaged"),
        (gguf(struct.pack("<Q", 1) + b"x" + struct.pack("<I", 77)), "damaged"),
        (gguf(struct.pack("<Q", 1) + b"x" + struct.pack("<IIQ", 9, 8, 2**61)), "damaged"),
        (gguf(struct.pack("<Q", 1) + b"x" + struct.pack("<IIQ", 9, 10, 2**61)), "damaged"),
        (gguf(struct.pack("<Q", 1) + b"x" + struct.pack("<IIQ", 9, 9, 1)), "damaged"),
    ],
)
def test_what_is_no_model_is_refused_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(GgufError, match=reason):
        read_header(str(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=12))
def test_a_damaged_header_is_read_or_refused(tmp_path: Path, place: int, patch: bytes) -> None:
    path = tmp_path / "m.gguf"
    for data in (WHOLE[:place], WHOLE[:place] + patch + WHOLE[place + len(patch) :]):
        path.write_bytes(data)
        try:
            assert isinstance(read_header(str(path)), GgufHeader)
        except GgufError:
            pass
