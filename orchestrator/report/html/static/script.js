"use strict";
// Filters of tables: a group of buttons shows the rows of one status, or all of them.
document.querySelectorAll("[data-filters]").forEach((group) => {
  const rows = document.getElementById(group.dataset.filters).tBodies[0].rows;
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    group.querySelectorAll("button").forEach((other) =>
      other.setAttribute("aria-pressed", String(other === button)));
    for (const row of rows) {
      row.hidden = button.dataset.filter !== "" && row.dataset.status !== button.dataset.filter;
    }
  });
});
