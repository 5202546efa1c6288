// Rows of a table: their columns, the decision at the threshold, and the rates of groups.

const SAMPLES = DATA.samples;
const some = (numbers) =>
  numbers
    .slice(0, 10)
    .map((value) => show(value, 3))
    .join(", ");

const sum = (list) => list.reduce((total, value) => total + value, 0);

/** Rates of a group whose counts by label and bin of probability are given, decided above the threshold. */
function ratesOf({ counts, means }, threshold) {
  const start = Math.round(threshold * counts[0].length);
  const [negative, positive] = counts.map(sum);
  const [false_, true_] = counts.map((bins) => sum(bins.slice(start)));
  const share = (part, whole) => (whole ? part / whole : NaN);
  return {
    [`decided “${SAMPLES.classes[1]}”`]: share(false_ + true_, negative + positive),
    error: share(false_ + positive - true_, negative + positive),
    "false positives": share(false_, negative),
    "false negatives": share(positive - true_, positive),
    [`mean probability, truth ${SAMPLES.classes[0]}`]: negative ? means[0] : NaN,
    [`mean probability, truth ${SAMPLES.classes[1]}`]: positive ? means[1] : NaN,
    rows: negative + positive,
  };
}

const table = {
  note: SAMPLES.predicted && `${SAMPLES.task === "binary" ? "probability of" : "predicted"}: ${SAMPLES.predicted}`,
  threshold: SAMPLES.threshold,

  /** The slider of the decision threshold. */
  control(changed) {
    if (SAMPLES.task !== "binary") return null;
    const words = el("output", { class: "number", for: "threshold" });
    const note = el("span", { class: "small muted" });
    const input = el("input", {
      type: "range",
      id: "threshold",
      min: 0.01,
      max: 0.99,
      step: 0.01,
      "aria-describedby": "threshold-note",
      oninput: () => {
        this.threshold = Number(input.value);
        tell();
        changed();
      },
    });
    note.id = "threshold-note";
    input.value = this.threshold;
    const tell = () => {
      words.textContent = this.threshold.toFixed(2);
      const same = Math.abs(this.threshold - SAMPLES.threshold) < 1e-9;
      note.textContent = same
        ? "as in the scores of the front"
        : `moves decisions and rates here; the scores of the front are at ${SAMPLES.threshold}`;
    };
    tell();
    return el(
      "div",
      { class: "threshold" },
      el("label", { for: "threshold" }, `Decide “${SAMPLES.classes[1]}” above`),
      input,
      words,
      note,
    );
  },

  item(k) {
    const { title, fields, groups } = SAMPLES.items[k];
    const list = Object.entries(fields).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
    const member = SAMPLES.groupings.map((grouping, g) => grouping.groups[groups[g]]).filter(Boolean);
    const summary = el(
      "summary",
      {},
      el("strong", {}, title),
      el("span", { class: "muted small" }, member.join(", ") || "\u00a0"),
    );
    return el("details", { class: "person" }, summary, el("dl", {}, list));
  },

  answer(k, predictions) {
    const [found, { truth }] = [predictions.rows[k], SAMPLES.items[k]];
    const said = (right, text, aim) =>
      el("span", { class: "says" }, verdict(right, text), el("span", { class: "muted" }, `, truth ${aim}`));
    if (SAMPLES.task === "regression")
      return [el("span", { class: "says" }, show(found), el("span", { class: "muted" }, `, truth ${show(truth)}`))];
    const binary = SAMPLES.task === "binary";
    const decided = binary ? Number(found > this.threshold) : found.indexOf(Math.max(...found));
    const [chance, marked] = binary ? [found, this.threshold] : [found[decided], null];
    const text = `${percent(chance)}${binary ? "," : " for"} ${SAMPLES.classes[decided]}`;
    return [meter(chance, "", marked), said(decided === truth, text, SAMPLES.classes[truth])];
  },

  /** One table for each sensitive column. */
  whole({ groupings }) {
    const tables = groupings.map((rates, g) => this.groups(SAMPLES.groupings[g], rates));
    return el("div", {}, tables);
  },

  groups({ name, groups }, found) {
    const rates = SAMPLES.task === "binary" ? found.map((group) => ratesOf(group, this.threshold)) : found;
    const text = (rate, value) =>
      rate === "rows" ? String(value) : SAMPLES.task === "regression" ? show(value) : percent(value);
    const head = ["", ...groups, "gap"].map((words) => el("th", { scope: "col" }, words));
    const line = (rate) => {
      const values = rates.map((group) => group[rate]);
      const known = values.filter(Number.isFinite);
      const plain = rate === "rows" || SAMPLES.task === "regression";
      const bar = (value, k) => (plain ? null : meter(value || 0, `g${k % 4}`));
      const gap = rate === "rows" || known.length < 2 ? "" : text(rate, Math.max(...known) - Math.min(...known));
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, rate),
        values.map((value, k) => el("td", {}, bar(value, k), Number.isFinite(value) ? text(rate, value) : "–")),
        el("td", { class: "gap" }, gap),
      );
    };
    const all = groups.length === 2 ? "Both groups" : "All groups";
    const where = DATA.data ? ` of the ${DATA.data}` : "";
    const caption = el("caption", {}, `${all} by ${name}, on ${SAMPLES.rows.toLocaleString("en")} rows${where}`);
    return el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `${all} by ${name}` },
      el(
        "table",
        { class: "groups" },
        caption,
        el("thead", {}, el("tr", {}, head)),
        el("tbody", {}, Object.keys(rates[0] || {}).map(line)),
      ),
    );
  },
};
