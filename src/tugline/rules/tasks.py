"""What is said of tasks: to the model that lets go of one, looks at one, or hears of its end."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from tugline.protocol.ids import MessageId, TaskId
from tugline.protocol.records import AnyRecord, Forked, Said, TaskEnded, TaskReleased, TaskTold
from tugline.protocol.tasks import Task, TaskKind
from tugline.rules.terminal import clean_line
from tugline.rules.wording import escape

_NOUNS: Mapping[TaskKind, str] = {
    "local_bash": "command",
    "local_agent": "agent",
    "remote_agent": "remote agent",
    "in_process_teammate": "teammate",
    "monitor": "monitor",
    "dream": "consolidation of memory",
}
_WHY = {
    "asked": "it was asked to run in the background",
    "user": "the user let go of it",
    "timeout": "it took longer than its time limit",
}
_ENDS = {"completed": "has completed", "failed": "has failed", "killed": "was ended before it was done"}
LOST = "the program ended while it ran"


def noun(kind: TaskKind) -> str:
    """What a task of this kind is called."""
    return _NOUNS[kind]


def told_id(task: TaskId) -> MessageId:
    """The id of the message that tells of a task's end: it stands in a conversation once."""
    return MessageId(f"{task}-ended")


def launched(task: Task) -> str:
    """The result of a call that nobody waits for any more."""
    what = noun(task.kind)
    lines = [
        f"The {what} goes on in the background, because {_WHY.get(task.released, 'nobody waits for it')}. It has not "
        "ended; do not take this for its outcome.",
        f"task id: {task.id}",
    ]
    if task.output:
        lines.append(f"output: {task.output} (grows while it runs; read the end of it)")
    lines.append(
        "You will be told when it ends, so go on with other work. TaskOutput with its id shows what there is, or "
        "waits; TaskStop ends it."
    )
    return "\n".join(lines)


def ended(task: Task) -> str:
    """What the model is told of a task's end."""
    how = f"{noun(task.kind).capitalize()} {task.description!r} {_ENDS.get(task.state, task.state)}"
    if task.exit_code is not None and task.state != "killed":
        how += f" with exit code {task.exit_code}"
    parts = [
        f"<task-id>{task.id}</task-id>",
        f"<status>{task.state}</status>",
        f"<summary>{escape(how)}</summary>",
    ]
    if task.summary:
        parts.append(f"<result>{escape(task.summary)}</result>")
    if task.output:
        parts.append(f"<output-file>{escape(task.output)}</output-file>")
    return "<task-notification>\n" + "\n".join(parts) + "\n</task-notification>"


def heard(task: Task, lines: list[str], left_out: int) -> str:
    """What the model is told of new lines that a monitor has seen."""
    more = f"\n[{left_out} earlier lines left out; all are in {task.output}]" if left_out else ""
    body = "\n".join(lines)
    return (
        f"<task-notification>\n<task-id>{task.id}</task-id>\n<summary>Monitor {escape(repr(task.description))}: new "
        f"output</summary>{more}\n<output>\n{escape(body)}\n</output>\n</task-notification>"
    )


def listed(tasks: Sequence[Task]) -> str:
    """Tasks for a person, one line each."""
    return "\n".join(
        f"{task.id}  {task.state:<9}  {noun(task.kind)}: {clean_line(task.description, 100)}"
        + (f"  ({task.output})" if task.output else "")
        for task in tasks
    )


def untold(known: Iterable[Task], records: Iterable[AnyRecord]) -> tuple[Task, ...]:
    """Tasks that were let go of and whose end the model has not been told, after these records."""
    tasks = {task.id: task for task in known}
    messages = {told_id(task): task for task in tasks}
    for record in records:
        match record:
            case TaskReleased(task=task):
                tasks[task.id] = task
                messages[told_id(task.id)] = task.id
            case TaskEnded(task=identity, state=state, summary=summary, exit_code=code) if identity in tasks:
                tasks[identity] = structs.replace(
                    tasks[identity], state=state, summary=summary, exit_code=code, ended=record.time
                )
            case Forked():
                tasks.clear()  # they are the other session's
            case TaskTold(task=identity):
                tasks.pop(identity, None)
            case Said(message=message) if message.id in messages:
                tasks.pop(messages[message.id], None)
            case _:
                pass
    return tuple(tasks.values())
