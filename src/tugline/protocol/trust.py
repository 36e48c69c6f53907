"""Whether a folder is trusted: what of it could run code or redirect the agent, the question, and its answer."""

from typing import Literal

from msgspec import Struct

from tugline.protocol.ids import QuestionId

ItemKind = Literal["setting", "server", "agent", "skill", "command", "tool", "plugin"]
ItemChange = Literal["new", "changed", "approved", "gone"]


class TrustItem(Struct, frozen=True, omit_defaults=True):
    """One thing of a project that counts only when a person has approved it as it is.

    `source` is its file below the project's root, `text` what it says; `before` is what was approved, where it has
    changed since, or is gone.
    """

    kind: ItemKind
    source: str
    name: str
    text: str
    change: ItemChange = "new"
    before: str = ""

    @property
    def label(self) -> str:
        """Its name for people and for an answer that chooses: file and name."""
        return f"{self.source}: {self.name}" if self.name else self.source


class TrustQuestion(Struct, frozen=True, tag="trust", omit_defaults=True):
    """May this folder's own settings and parts count? `first`: it was never trusted before; else something in it is
    new or has changed."""

    id: QuestionId
    folder: str
    items: tuple[TrustItem, ...] = ()
    first: bool = True


class TrustAnswer(Struct, frozen=True, tag="trust_answer", omit_defaults=True):
    """`only` names the items that are approved, by their labels; `None`: all. `remember` is false for this once."""

    trusted: bool = False
    remember: bool = True
    only: tuple[str, ...] | None = None
