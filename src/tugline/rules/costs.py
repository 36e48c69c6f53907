"""What a session has cost, out of its records: per model, per purpose, and where the prompt cache was missed."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from tugline.protocol.records import AnyRecord, Paid
from tugline.protocol.usage import Spend, Usage
from tugline.rules.price import add_spend


class Row(Struct, frozen=True):
    """The sum of one model for one purpose. `hits` and `misses` count requests that found, or did not find, what the
    one before had left in the cache."""

    model: str
    purpose: str
    spend: Spend
    hits: int = 0
    misses: int = 0


class Costs(Struct, frozen=True):
    """All of it. `causes` says how often which section of a request was why the cache was missed."""

    rows: tuple[Row, ...]
    total: Spend
    causes: tuple[tuple[str, int], ...] = ()


def costs(records: Iterable[AnyRecord]) -> Costs:
    """Sum up what was paid."""
    rows: dict[tuple[str, str], Row] = {}
    causes: Counter[str] = Counter()
    total = Spend()
    for record in records:
        if not isinstance(record, Paid):
            continue
        key = (record.model, record.purpose)
        spend = Spend(record.usage, record.cost_usd, 1)
        row = rows.get(key) or Row(record.model, record.purpose, Spend())
        missed = bool(record.cache_miss)
        rows[key] = Row(
            row.model,
            row.purpose,
            add_spend(row.spend, spend),
            row.hits + (record.usage.cache_read > 0 and not missed),
            row.misses + missed,
        )
        total = add_spend(total, spend)
        causes.update([record.cache_miss] if missed else ())
    ordered = sorted(rows.values(), key=lambda row: (-row.spend.cost_usd, -row.spend.requests, row.model, row.purpose))
    return Costs(tuple(ordered), total, tuple(causes.most_common()))


def rendered(found: Costs) -> str:
    """As Markdown for a person."""
    if not found.rows:
        return "Nothing was spent yet."
    lines = [
        f"Total: ${found.total.cost_usd:.4f} for {found.total.requests} requests",
        "",
        "| model | for | requests | input | cache read | cache write | output | cost |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_line(row) for row in found.rows]
    hits, misses = sum(row.hits for row in found.rows), sum(row.misses for row in found.rows)
    if hits or misses:
        lines += [
            "",
            f"Prompt cache: {_share(found.total.usage)} of the input read from it; {hits} hits, {misses} misses",
        ]
        lines += [f"- {count} × {cause}" for cause, count in found.causes]
    return "\n".join(lines)


def _line(row: Row) -> str:
    usage = row.spend.usage
    cells = (
        row.model, row.purpose, str(row.spend.requests), f"{usage.input:,}", f"{usage.cache_read:,}",
        f"{usage.cache_write:,}", f"{usage.output:,}", f"${row.spend.cost_usd:.4f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _share(usage: Usage) -> str:
    whole = usage.input + usage.cache_read + usage.cache_write
    return f"{usage.cache_read / whole:.0%}" if whole else "0%"
