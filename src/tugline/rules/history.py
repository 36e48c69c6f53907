"""What the records of a transcript amount to: the conversation as the model sees it, and where its agent stood.

Records are read from the last to the first until `Backward` says that it is enough, and folded in the order of the
file. Nothing is invented here but results for calls whose outcome nobody knows.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.ids import CallId, MessageId, SessionId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import (
    AnyRecord,
    Compacted,
    Finished,
    Folded,
    Forked,
    Opened,
    Paid,
    Queued,
    Resumed,
    Rewound,
    Said,
    Standing,
    Started,
    StateChanged,
    Stub,
    Titled,
    Trimmed,
    TurnEnded,
    Uncompacted,
    Unfolded,
    Voided,
    Withdrawn,
)
from tugline.protocol.specs import AgentState, Surroundings
from tugline.protocol.usage import Spend
from tugline.rules import wording
from tugline.rules.price import add_spend
from tugline.rules.state import apply, forget_views
from tugline.rules.tasks import untold


class History(Struct, frozen=True, kw_only=True):
    """A conversation that can be gone on with.

    `messages` is what the model sees; `mended` are those of them, at the end, that are not in the file yet. Up to
    `stale` of the messages were reported by usages that no longer tell their size. `around` is what the system prompt
    said of the place. `origins` are the sessions that this one was copied from.
    """

    messages: tuple[Message, ...] = ()
    mended: tuple[User, ...] = ()
    stale: int = 0
    head: MessageId | None = None
    standing: Standing
    around: Surroundings | None = None
    cwd: str = ""
    origins: tuple[SessionId, ...] = ()


class Backward:
    """Takes records from the last to the first; `enough` once a conversation can be gone on with from what came."""

    def __init__(self, *, whole: bool = False) -> None:
        self.enough = False
        self._whole = whole
        self._head_known = False
        self._wanted: MessageId | None = None
        self._undone: set[MessageId] = set()

    def take(self, record: AnyRecord) -> None:
        """One record more, before those that came already."""
        match record:
            case Uncompacted(boundary=boundary):
                self._undone.add(boundary)
            case Rewound(to=to) if not self._head_known:
                self._head_known, self._wanted = True, to
                self.enough = to is None and not self._whole
            case Said(message=message, parent=parent):
                self._take_node(message.id, parent, boundary=False)
            case Compacted(id=identity, parent=parent):
                self._take_node(identity, parent, boundary=identity not in self._undone)
            case _:
                pass

    def _take_node(self, identity: MessageId, parent: MessageId | None, *, boundary: bool) -> None:
        if not self._head_known:
            self._head_known, self._wanted = True, identity
        if identity == self._wanted:
            self._wanted = parent
            self.enough = (boundary or parent is None) and not self._whole


class _Chain(Struct):
    """The way from the root, or a boundary, to the head."""

    boundary: Compacted | None
    nodes: list[Said]
    ids: set[MessageId]


class Tree:
    """The nodes of a transcript."""

    def __init__(self, records: Sequence[AnyRecord]) -> None:
        self.head: MessageId | None = None
        self._nodes: dict[MessageId, Said | Compacted] = {}
        self._before: dict[MessageId, MessageId] = {}
        self._undone: set[MessageId] = set()
        last: MessageId | None = None
        for record in records:
            match record:
                case Said(message=message):
                    identity = message.id
                case Compacted(id=identity):
                    pass
                case Uncompacted(boundary=boundary):
                    self._undone.add(boundary)
                    continue
                case Rewound(to=to):
                    self.head = to
                    continue
                case _:
                    continue
            if last is not None:
                self._before.setdefault(identity, last)
            self._nodes.setdefault(identity, record)
            self.head = last = identity

    def chain(self, head: MessageId | None, *, through: bool = False) -> _Chain:
        """The nodes that lead to `head`, oldest first; `through` boundaries, or from the last one that counts."""
        nodes: list[Said] = []
        ids: set[MessageId] = set()
        boundary: Compacted | None = None
        at = head
        while at is not None and at not in ids:
            node = self._nodes.get(at)
            if node is None:  # it was not in this file, or was damaged: what stood before it is the next best
                break
            ids.add(at)
            if isinstance(node, Said):
                nodes.append(node)
            elif not through and node.id not in self._undone:
                boundary = node
                break
            at = self._parent(at, node)
        nodes.reverse()
        return _Chain(boundary, nodes, ids)

    def _parent(self, identity: MessageId, node: Said | Compacted) -> MessageId | None:
        """Its parent; where that is damaged, the node that stands before it in the file."""
        if node.parent is None or node.parent in self._nodes:
            return node.parent
        return self._before.get(identity)


def fold(records: Sequence[AnyRecord]) -> History:
    """The conversation of these records, in the order of their file: all of them, or the first and those from a
    boundary on."""
    tree = Tree(records)
    chain = tree.chain(tree.head)
    views = _Views(records)
    messages: list[Message] = list(chain.boundary.messages) if chain.boundary is not None else []
    messages.extend(node.message for node in chain.nodes)
    stale = _stale(records, chain) if chain.nodes else len(messages)
    seen, mended = _whole(messages, _Outcomes(records))
    opened = next((record for record in records if isinstance(record, Opened)), None)
    shown, shrunk = views.apply(seen)
    return History(
        messages=tuple(shown),
        mended=mended,
        stale=max(0, min(len(shown), stale - shrunk)),
        head=tree.head,
        standing=_standing(records, chain, opened),
        around=_around(records, opened),
        cwd=opened.cwd if opened is not None else "",
        origins=tuple(record.origin for record in records if isinstance(record, Forked)),
    )


def _stale(records: Sequence[AnyRecord], chain: _Chain) -> int:
    """How many messages stood there when the view was last changed: usages reported before do not tell its size."""
    since: set[MessageId] = set()
    for record in reversed(records):
        if isinstance(record, Trimmed | Folded | Unfolded | Uncompacted | Compacted | Rewound):
            break
        if isinstance(record, Said):
            since.add(record.message.id)
    kept = len(chain.boundary.messages) if chain.boundary is not None else 0
    return kept + sum(node.message.id not in since for node in chain.nodes)


def _standing(records: Sequence[AnyRecord], chain: _Chain, opened: Opened | None) -> Standing:
    base = chain.boundary.standing if chain.boundary is not None else None
    standing = base or Standing(cwd=opened.cwd if opened is not None else "/")
    state = to_state(standing)
    title, models, compactions = standing.title, dict(standing.models), standing.compactions
    queued: dict[MessageId, User] = {message.id: message for message in standing.queued}
    for record in records:
        match record:
            case StateChanged(changes=changes, node=node):
                if node in chain.ids or (node is None and chain.boundary is None):
                    state = apply(state, changes)
            case Trimmed() | Folded():
                state = forget_views(state)
            case Compacted(id=identity):
                # that of a boundary counts all up to it
                known = base is not None and chain.boundary is not None and identity == chain.boundary.id
                compactions = standing.compactions if known else compactions + 1
            case Titled(title=name):
                title = name
            case TurnEnded(title=name, models=spent):
                title = name or title
                models = dict(spent) or models
            case Paid(model=model, usage=usage, cost_usd=cost):
                models[model] = add_spend(models.get(model, Spend()), Spend(usage, cost, 1))
            case Queued(message=message):
                queued[message.id] = message
            case Said(message=message):
                queued.pop(message.id, None)
            case Withdrawn(message=identity):
                queued.pop(identity, None)
            case _:
                pass
    return structs.replace(
        from_state(state),
        title=title,
        models=models,
        compactions=compactions,
        queued=tuple(queued.values()),
        ratio=standing.ratio,
        tasks=untold(standing.tasks, records),
    )


def to_state(standing: Standing) -> AgentState:
    """The agent's state in it."""
    return AgentState(standing.cwd, standing.files, standing.todos, frozenset(standing.loaded_tools))


def from_state(state: AgentState) -> Standing:
    """What of an agent's state outlives a process."""
    return Standing(
        cwd=state.cwd, files=dict(state.files), todos=state.todos, loaded_tools=tuple(sorted(state.loaded_tools))
    )


def _around(records: Sequence[AnyRecord], opened: Opened | None) -> Surroundings | None:
    for record in reversed(records):
        if isinstance(record, Resumed) and record.around is not None:
            return record.around
    return opened.around if opened is not None else None


class Spoken(Struct, frozen=True):
    """Something that a person said, and the node before it: what a rewind goes back to."""

    id: MessageId
    before: MessageId | None
    text: str
    time: float


def spoken(records: Sequence[AnyRecord]) -> tuple[Spoken, ...]:
    """All that the person said on the way to the head, through all boundaries, oldest first. Takes all records."""
    tree = Tree(records)
    found = []
    for node in tree.chain(tree.head, through=True).nodes:
        message = node.message
        if isinstance(message, User) and message.source == "person":
            text = "\n".join(block.text for block in message.content if isinstance(block, Text))
            found.append(Spoken(message.id, node.parent, text, node.time))
    return tuple(found)


def last_boundary(records: Sequence[AnyRecord]) -> Compacted | None:
    """The boundary that the conversation begins at, if there is one."""
    tree = Tree(records)
    return tree.chain(tree.head).boundary


def active_folds(records: Sequence[AnyRecord]) -> tuple[Folded, ...]:
    """The folds that the conversation shows."""
    tree = Tree(records)
    ids = tree.chain(tree.head).ids
    return tuple(one for one in _Views(records).folds.values() if one.first in ids)


class _Outcomes:
    """What is known of the calls: which began, and what came of them."""

    def __init__(self, records: Iterable[AnyRecord]) -> None:
        self._began: dict[tuple[str, CallId], None] = {}
        self._ended: dict[tuple[str, CallId], ToolResult] = {}
        for record in records:
            match record:
                case Started(call=call, reply=reply):
                    self._began[reply, call] = None
                case Finished(result=result, reply=reply):
                    self._ended.setdefault((reply, result.tool_use_id), result)
                case Voided(reply=reply):
                    for known in (self._began, self._ended):
                        for key in [key for key in known if key[0] == reply]:
                            del known[key]
                case _:
                    pass

    def result(self, reply: str, use: ToolUse) -> ToolResult:
        """The result of a call that has none in its place."""
        found = self._ended.get((reply, use.id))
        if found is not None:
            return found
        text = wording.outcome_unknown(use.name, started=(reply, use.id) in self._began)
        return ToolResult(use.id, text, is_error=True)


def _whole(messages: Sequence[Message], outcomes: _Outcomes) -> tuple[list[Message], tuple[User, ...]]:
    """The messages, with exactly one result for each call, directly after its reply; and which of them are new at the
    end."""
    placed: dict[CallId, ToolResult] = {}
    for message in messages:
        if isinstance(message, User):
            for block in message.content:
                if isinstance(block, ToolResult):
                    placed.setdefault(block.tool_use_id, block)
    whole: list[Message] = []
    mended: list[User] = []
    used: set[CallId] = set()
    if messages and isinstance(messages[0], Assistant):
        whole.append(User(MessageId(f"{messages[0].id}-before"), (Text(wording.BEGINNING_LOST),), "loop"))
    for index, message in enumerate(messages):
        if isinstance(message, User):
            kept = _without_results(message, whole, used)
            if kept is not None:
                whole.append(kept)
            continue
        message = _once(message, used)
        if not message.content:
            continue
        whole.append(message)
        calls = [block for block in message.content if isinstance(block, ToolUse)]
        if not calls:
            continue
        after = messages[index + 1] if index + 1 < len(messages) else None
        if isinstance(after, User) and [r.tool_use_id for r in _results(after)] == [use.id for use in calls]:
            used.update(use.id for use in calls)
            continue  # as it should be
        results = tuple(placed.get(use.id) or outcomes.result(message.reply, use) for use in calls)
        used.update(use.id for use in calls)
        given = User(MessageId(f"{message.id}-results"), results, "results")
        whole.append(given)
        if after is None:
            mended.append(given)
    return whole, tuple(mended)


def _results(message: User) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _without_results(message: User, before: Sequence[Message], used: set[CallId]) -> User | None:
    """The message without results that stand elsewhere, or answer no call of the reply before."""
    results = _results(message)
    if not results:
        return message if message.content else None
    last = before[-1] if before else None
    asked = [b.id for b in last.content if isinstance(b, ToolUse)] if isinstance(last, Assistant) else []
    if asked and asked == [result.tool_use_id for result in results]:
        return message
    rest = tuple(block for block in message.content if not isinstance(block, ToolResult))
    return structs.replace(message, content=rest) if rest else None


def _once(message: Assistant, used: set[CallId]) -> Assistant:
    """The reply without empty text, and without calls whose id was used before."""
    seen: set[CallId] = set()
    kept = []
    for block in message.content:
        if isinstance(block, Text) and not block.text.strip():
            continue
        if isinstance(block, ToolUse):
            if block.id in used or block.id in seen:
                continue
            seen.add(block.id)
        kept.append(block)
    return message if len(kept) == len(message.content) else structs.replace(message, content=tuple(kept))


class _Views:
    """Stubs and folds: how the history is shown, without being another one."""

    def __init__(self, records: Iterable[AnyRecord]) -> None:
        self._stubs: dict[CallId, str] = {}
        self.folds: dict[MessageId, Folded] = {}
        for record in records:
            match record:
                case Trimmed(stubs=stubs):
                    self._stubs.update((stub.call, stub.text) for stub in stubs)
                case Folded(id=identity):
                    self.folds[identity] = record
                case Unfolded(fold=identity):
                    self.folds.pop(identity, None)
                case _:
                    pass

    def apply(self, messages: Sequence[Message]) -> tuple[list[Message], int]:
        """The messages as they are shown, and how many fewer they are."""
        shown = with_stubs(messages, [Stub(call, text) for call, text in self._stubs.items()])
        for folded in self.folds.values():
            shown = with_fold(shown, folded)
        return shown, len(messages) - len(shown)


def with_stubs(messages: Sequence[Message], stubs: Sequence[Stub]) -> list[Message]:
    """The messages with one line in place of those results."""
    texts = {stub.call: stub.text for stub in stubs}
    if not texts:
        return list(messages)
    return [_stubbed(message, texts) if isinstance(message, User) else message for message in messages]


def _stubbed(message: User, texts: dict[CallId, str]) -> User:
    if not any(isinstance(block, ToolResult) and block.tool_use_id in texts for block in message.content):
        return message
    blocks = tuple(
        structs.replace(block, content=texts[block.tool_use_id])
        if isinstance(block, ToolResult) and block.tool_use_id in texts
        else block
        for block in message.content
    )
    return structs.replace(message, content=blocks)


def with_fold(messages: Sequence[Message], folded: Folded) -> list[Message]:
    """The messages with one in place of a stretch; unchanged where the stretch is not there."""
    ids = [message.id for message in messages]
    if folded.first not in ids or folded.last not in ids:
        return list(messages)
    begin, end = ids.index(folded.first), ids.index(folded.last)
    if begin > end:
        return list(messages)
    return [*messages[:begin], User(folded.id, (Text(folded.text),), "summary", hidden=True), *messages[end + 1 :]]
