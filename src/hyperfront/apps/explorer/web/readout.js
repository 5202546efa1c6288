// Ray, losses and scores at the handle, and how sure they are.

const CHIPS = {
  interpolated: ["≈ interpolated", "Between measured rays; let go of the handle and it is measured."],
  measuring: ["measuring …", "The losses at this ray are being measured."],
  exact: ["exact", "Measured at this ray."],
};
if (!backend.exact) CHIPS.interpolated[1] = "Between measured rays: this page has no model to measure with.";

const readout = {
  start() {
    this.rows = range(M).map((j) => {
      const entry = el("input", {
        type: "number",
        class: "entry",
        min: 0,
        max: 1,
        step: 0.01,
        "aria-label": `Ray entry of ${LABELS[j]}`,
        onchange: () => goTo(withEntry(state.ray, j, Number(entry.value) || 0), { settled: true }),
      });
      const control =
        M > 3
          ? slider(
              { class: "small-slider", "aria-label": `Ray entry of ${LABELS[j]}`, "aria-describedby": "meaning" },
              (value) => withEntry(state.ray, j, value),
            )
          : el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "fill" }));
      return { entry, control, value: el("td", { class: "value" }) };
    });
    this.scores = DATA.scores.map(() => el("td", { class: "value" }));
    const head = (text, extra) => el("th", { scope: "col", ...extra }, text);
    byId("readout").append(
      el(
        "table",
        { class: `readout ${M > 3 ? "many" : ""}` },
        el("caption", { class: "unseen" }, "Ray and losses at the handle"),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            head("objective"),
            head("ray", { class: "right" }),
            head(M > 3 ? "" : "best to worst", { class: "control" }),
            head("loss", { class: "right" }),
          ),
        ),
        el(
          "tbody",
          {},
          this.rows.map((row, j) =>
            el(
              "tr",
              {},
              el("th", { scope: "row", title: titled(j) }, el("span", { class: "name" }, SHORT[j])),
              el("td", { class: "right" }, row.entry),
              el("td", { class: "control" }, row.control),
              row.value,
            ),
          ),
        ),
      ),
      ...(DATA.scores.length
        ? [
            el(
              "table",
              { class: "scores" },
              el("caption", { class: "unseen" }, "Scores at the handle"),
              el(
                "tbody",
                {},
                DATA.scores.map((name, k) =>
                  el(
                    "tr",
                    {},
                    el("th", { scope: "row", title: name }, titled(M + k), direction(M + k)),
                    this.scores[k],
                  ),
                ),
              ),
            ),
          ]
        : []),
    );
    watch("ray", () => this.follow());
  },

  follow() {
    const ends = range(M).map((j) => {
      const column = bestRows().map((row) => row[j]);
      return [Math.min(...column), Math.max(...column)];
    });
    this.rows.forEach(({ entry, control, value }, j) => {
      if (document.activeElement !== entry) entry.value = state.ray[j].toFixed(3);
      if (M > 3) {
        control.value = state.ray[j];
        control.style.setProperty("--share", `${100 * state.ray[j]}%`);
        control.setAttribute(
          "aria-valuetext",
          `${state.ray[j].toFixed(2)}; ${state.certainty} loss ${show(state.values[j], 3)}`,
        );
      } else {
        const [low, high] = ends[j];
        control.firstChild.style.width = `${100 * clamp((state.values[j] - low) / (high - low || 1), 0.01, 1)}%`;
      }
      this.number(value, state.values[j]);
    });
    this.scores.forEach((cell, k) => this.number(cell, state.values[M + k]));
    this.intervals();
    const [text, title] = CHIPS[state.certainty];
    const chip = byId("chip");
    chip.textContent = state.certainty === "exact" && DATA.data ? `exact, ${DATA.data}` : text;
    chip.title = title;
    chip.className = `chip ${state.certainty}`;
  },

  number(cell, value) {
    const exact = state.certainty === "exact";
    cell.replaceChildren(
      el("span", { class: "about", "aria-label": exact ? undefined : "about" }, exact ? "" : "≈"),
      show(value),
    );
  },

  /** Below each value: the interval of the value in the population, where it is known. */
  intervals() {
    [...this.rows.map((row) => row.value), ...this.scores].forEach((cell, c) => {
      cell.querySelector(".between")?.remove();
      const found = sure.of(c);
      if (!found) return;
      const mark = found.method === "exact" ? "" : "~";
      cell.append(el("span", { class: "between", title: `${found.method}: ${found.test}` }, mark + sure.text(c)));
    });
  },
};
