"""What keeps a conversation short: composed here, and nowhere else."""

from tugline.config.settings import Settings
from tugline.loop.agent import Agent
from tugline.loop.compaction import Compaction
from tugline.loop.gate import Judge
from tugline.ports import Tool
from tugline.rules.shrinking import Limits
from tugline.runtime.keepsakes import LoadedTools, OpenTodos, RecentFiles

RERUNNABLE = ("Read", "Glob", "Grep", "Bash", "WebFetch")
"""Tools whose old results may give way to a line: the call can be made again."""


def make_compaction(agent: Agent, settings: Settings, read: Tool, judge: Judge) -> Compaction:
    """The compactor of an agent, with what its conversation takes along."""
    given = settings.compaction
    limits = Limits(
        auto=given.auto,
        threshold=given.threshold,
        buffer=given.buffer,
        trim=given.trim,
        fold=given.fold,
        keep_results=given.keep_results,
        words_tokens=given.words_tokens,
        files_tokens=given.files_tokens,
    )
    keepsakes = (
        OpenTodos(agent.gear),
        LoadedTools(agent.gear),
        RecentFiles(agent.gear, read, judge, given.files),
    )
    return Compaction(agent, limits, rerunnable=RERUNNABLE, keepsakes=keepsakes)
