"use strict";
// A click on the head of a column, or Enter or Space on it, sorts the rows; once more, the other way round.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const value = (row) => row.cells[head.cellIndex].dataset.value;
    const isText = head.dataset.kind === "text";
    const compare = (a, b) => {
      if (isText) return a.localeCompare(b, undefined, { numeric: true });
      // What is not a number comes last, whichever way.
      if (isNaN(a) || isNaN(b)) return sign * (isNaN(a) - isNaN(b));
      return a - b;
    };
    const rows = [...body.rows].sort((a, b) => sign * compare(value(a), value(b)));
    for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...rows);
  });
}
