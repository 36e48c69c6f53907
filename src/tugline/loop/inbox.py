"""Letters: what arrives while an agent works, delivered between its steps in order of arrival."""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from tugline.protocol.commands import PromptContent
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Source


class Letter(Struct, frozen=True):
    """One thing to tell the model. `hidden`: not for the person, who knows it already."""

    content: PromptContent
    hidden: bool = False
    id: MessageId | None = None
    """Of the message that it becomes, where somebody knows it already."""
    source: Source = "letter"


class Inbox:
    """Letters in order of arrival. Each is delivered once."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self.bell: Callable[[], None] = lambda: None
        """Rung by a letter that is not to wait until somebody speaks to the agent."""

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def rouses(self) -> bool:
        """Whether there is a letter that is worth a turn of its own: what the person knows already waits for words."""
        return any(not letter.hidden for letter in self._letters)

    def take_back(self, letter: Letter) -> bool:
        """Take a letter out again; false if it has been delivered."""
        for position, waiting in enumerate(self._letters):
            if waiting is letter:
                del self._letters[position]
                return True
        return False

    def put(self, letter: Letter, *, ring: bool = False) -> None:
        """Leave a letter. `ring`: an agent at rest begins a turn for it."""
        self._letters.append(letter)
        if ring:
            self.bell()

    def find(self, letter: MessageId) -> Letter | None:
        """The letter of that id that waits to be delivered."""
        return next((waiting for waiting in self._letters if waiting.id == letter), None)

    def drain(self) -> tuple[Letter, ...]:
        """Take all letters out."""
        letters = tuple(self._letters)
        self._letters.clear()
        return letters
