"""The one place that encodes and decodes: JSON in, typed data out, and back."""

from typing import Any

import msgspec

from tugline.protocol.commands import Command
from tugline.protocol.events import AnyEvent
from tugline.protocol.messages import Message
from tugline.protocol.records import AnyRecord

DecodeError = msgspec.DecodeError
ValidationError = msgspec.ValidationError

_encoder = msgspec.json.Encoder()

encode = _encoder.encode
"""Any of our data, or plain JSON data, as compact JSON bytes (never with a raw newline)."""
encode_into = _encoder.encode_into

decode_json = msgspec.json.Decoder().decode
"""JSON bytes as plain data."""
decode_event = msgspec.json.Decoder(AnyEvent).decode
decode_command = msgspec.json.Decoder(Command).decode
decode_message = msgspec.json.Decoder(Message).decode
decode_record = msgspec.json.Decoder(AnyRecord).decode


def to_plain(value: Any) -> Any:
    """Our data as plain JSON data (dicts, lists, strings, numbers)."""
    return msgspec.to_builtins(value)


def mend_surrogates(text: str) -> str:
    """Halves of a pair that stand side by side become their character, other halves U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mended(value: Any) -> Any:
    """Plain data like `value`, in which all text can be written."""
    plain = to_plain(value)
    if isinstance(plain, str):
        return mend_surrogates(plain)
    if isinstance(plain, dict):
        return {mend_surrogates(key): mended(item) for key, item in plain.items()}
    if isinstance(plain, list | tuple):
        return [mended(item) for item in plain]
    return plain
