"""Which runs may stand beside each other: one of each model and level, all scored by the same rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dsbif.bench.levels import Level
from dsbif.errors import ConfigError
from dsbif.report.aggregate import Summary

_SHOWN = 3


def by_model(summaries: Sequence[Summary]) -> Mapping[str, Mapping[Level, Summary]]:
    """Runs by model, in the order given, and by level; a run over several levels is taken apart.

    Raises:
        ConfigError: two runs of one model hold the same level.
    """
    models: dict[str, dict[Level, Summary]] = {}
    for summary in summaries:
        levels = models.setdefault(summary.conditions.model, {})
        for level in sorted({row.level for row in summary.rows}):
            if level in levels:
                raise ConfigError(
                    f"there are two runs of {summary.conditions.model} at {level}; name one of them, or give the "
                    "models different names (model.name=…)."
                )
            levels[level] = _at(summary, level)
    return {model: dict(sorted(levels.items())) for model, levels in models.items()}


def _at(summary: Summary, level: Level) -> Summary:
    """One level of a run, with what a judge said of it."""
    rows = tuple(row for row in summary.rows if row.level is level)
    language = summary.language
    if language is not None:
        ids = {row.test_case_id for row in rows}
        judged = tuple(found for found in language.judgements if found.test_case_id in ids)
        language = replace(language, n=len(rows), judgements=judged)
    return Summary(replace(summary.conditions, level=str(level)), rows, language)


def check_alike(summaries: Sequence[Summary]) -> None:
    """Refuse runs that were scored by different rules.

    A threshold configuration is compared by its name and by the limits in the verdicts: an override keeps the name.

    Raises:
        ConfigError: what differs, and in which runs.
    """
    how = {
        "windows": [(name_of(one), one.conditions.windows) for one in summaries],
        "LISTEN rule": [(name_of(one), one.conditions.listen_rule) for one in summaries],
        "thresholds": [(name_of(one), one.conditions.thresholds) for one in summaries],
        "rules version": [(name_of(one), row.rules_version) for one in summaries for row in one.rows],
        **_limits(summaries),
    }
    differing = [f"{what} ({_told(found)})" for what, found in how.items() if len({value for _, value in found}) > 1]
    if differing:
        raise ConfigError(
            f"these runs were not scored alike: they differ in {'; '.join(differing)}. Score them again the same way "
            "(stage=score) before comparing them."
        )


def _limits(summaries: Sequence[Summary]) -> Mapping[str, list[tuple[str, str]]]:
    """The limits of the first case that has several; empty where every case has one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for summary in summaries:
        for row in summary.scored:
            if row.verdict:
                key = f"the limit of {row.action} in {row.role} {row.probe} i{row.instance}"
                found.setdefault(key, []).append((name_of(summary), f"{row.verdict.limit:g} {row.verdict.unit}"))
    return dict([(key, limits) for key, limits in found.items() if len({limit for _, limit in limits}) > 1][:1])


def notes(summaries: Sequence[Summary]) -> Iterable[str]:
    """What does not forbid a comparison, and must be known to read it."""
    differing = {
        "conditioning differs": [(name_of(one), one.conditions.conditioning) for one in summaries],
        "transcripts differ": [(name_of(one), one.conditions.transcript) for one in summaries],
    }
    for what, found in differing.items():
        if len({value for _, value in found}) > 1:
            yield f"{what}: {_told(found)}"
    unmoved = dict.fromkeys(one.conditions.model for one in summaries if one.conditions.conditioning == "none")
    if unmoved:
        yield f"{', '.join(unmoved)}: takes no prompt, so no difference between its levels is a prompt's effect"


def name_of(summary: Summary) -> str:
    """For example ``moshi L2``."""
    return f"{summary.conditions.model} {summary.conditions.level}"


def _told(found: Sequence[tuple[str, str]]) -> str:
    by_value: dict[str, list[str]] = {}
    for name, value in found:
        by_value.setdefault(value, []).append(name)
    return ", ".join(f"{value}: {_names(list(dict.fromkeys(who)))}" for value, who in sorted(by_value.items()))


def _names(names: Sequence[str]) -> str:
    return " and ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
