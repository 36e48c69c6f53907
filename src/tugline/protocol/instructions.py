"""Instruction files: what of them is loaded, from where, and why."""

from typing import Literal

from msgspec import Struct

Scope = Literal["managed", "user", "project"]
"""Whose instructions: those of the machine's owner, of the person, or of the project."""


class LoadedFile(Struct, frozen=True, omit_defaults=True):
    """A file of instructions that the model was told. `parent` is the file that imports it, `globs` say for which
    files a rule holds, `cut` that only its beginning was loaded."""

    path: str
    scope: Scope
    why: Literal["file", "import", "rule"]
    tokens: int
    parent: str = ""
    globs: tuple[str, ...] = ()
    cut: bool = False


class Instruction(Struct, frozen=True):
    """A file of instructions with its text."""

    file: LoadedFile
    text: str
