"""The paper's experiments beside every peer: needs `pip install "tessmc[bench]"`."""

from tessmc.experiments._measure import BUDGETS, Job, Row, judge_draws, measure
from tessmc.experiments._peers import GRADIENT_FREE, SAMPLERS
from tessmc.experiments._protocol import Batch, Sampler, Task
from tessmc.experiments._references import MODELS, PROBS, STORED, Model, Reference
from tessmc.experiments._tables import (
    FOOTNOTE,
    GATE,
    as_markdown,
    compare,
    failures,
    in_lines,
    in_parts,
    save,
    table,
    table_of_evaluations,
)

__all__ = [
    "BUDGETS",
    "FOOTNOTE",
    "GATE",
    "GRADIENT_FREE",
    "MODELS",
    "PROBS",
    "SAMPLERS",
    "STORED",
    "Batch",
    "Job",
    "Model",
    "Reference",
    "Row",
    "Sampler",
    "Task",
    "as_markdown",
    "compare",
    "failures",
    "in_lines",
    "in_parts",
    "judge_draws",
    "measure",
    "save",
    "table",
    "table_of_evaluations",
]
