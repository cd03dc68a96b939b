"""Results of the macro-benchmarks: real programs on both models.

The paper compares its curves with those of ModelNet and Emulab. Here the packet model `hop` stands
for these emulators.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Mapping, Sequence

from netarium_papers import Evidence, PaperError, Run, quantile


def results(run: Run, program: str, *keys: str) -> list[dict[str, Any]]:
    """The JSON objects with these keys that a program wrote, on all its nodes."""
    found = []
    for name, output in run.programs.items():
        if name == program or name.startswith(f"{program}."):
            for line in output.stdout.splitlines():
                with contextlib.suppress(ValueError):
                    result = json.loads(line)
                    if isinstance(result, dict) and result.keys() >= set(keys):
                        found.append(result)
    if not found:
        raise PaperError(f"run {run.folder} has no results of its program {program}")
    return found


def compare_models(
    evidence: Evidence,
    what: str,
    share: float,
    times: Mapping[str, Sequence[float]],
    tolerance: float,
) -> None:
    """Claims that the models agree on a quantile of times, if both were run."""
    if len(times) < 2:
        return
    hop, collapsed = quantile(times["hop"], share), quantile(times["collapsed"], share)
    apart = abs(collapsed / hop - 1)
    evidence.claim(
        f"{what}, collapsed beside hop, within {tolerance * 100:.0f} %",
        "same curves as the reference emulators",
        f"{collapsed:.4f} beside {hop:.4f}, {apart * 100:.2f} % apart",
        apart <= tolerance,
    )
