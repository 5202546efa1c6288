// The answer to limits in words: what was found, how it depends on the search, and what the certificate promises.

const limitWords = (limits) =>
  limits.map(({ column, sign, bound }) => `${LABELS[column]} ${sign === "<=" ? "≤" : "≥"} ${bound}`).join(", ");

/** The goal and the limited columns with their values. */
const reachedWords = (goal, limits, values) =>
  [goal, ...limits.map((limit) => limit.column)]
    .filter((c, k, all) => all.indexOf(c) === k)
    .map((c) => `${LABELS[c]} ${show(values[c])}`)
    .join(", ");

/** How far the answer depends on the rays that the search began with. */
function spreadWords(goal, { low, high, found, searches }) {
  const same = show(low, 3) === show(high, 3);
  const ends = same ? `${show(low, 3)} each time` : `${show(low, 3)} to ${show(high, 3)}`;
  return `${searches} searches from different rays, ${found} of them within the limits, found ${LABELS[goal]} ${ends}.`;
}

/** What a certificate promises, and what it costs. */
function certificateWords(found) {
  const promise = Object.entries(found.limits).map(([name, { sign, limit, method }]) => {
    const c = COLUMNS.indexOf(name);
    return `the ${LABELS[c]} is at ${sign === "<=" ? "most" : "least"} ${limit} (${method} test)`;
  });
  const about = found.future_rows
    ? `among the next ${found.future_rows.toLocaleString("en")} rows`
    : "in the whole population that the rows were drawn from";
  const lines = [
    `Certified: with probability ${percent(found.confidence)}, ${promise.join(" and ")} ${about}. ` +
      `${found.rows.toLocaleString("en")} calibration rows say so, which chose nothing.`,
  ];
  if (found.price) {
    const { goal, without, certified } = found.price;
    const label = LABELS[COLUMNS.indexOf(goal)];
    if (show(without, 3) !== show(certified, 3))
      lines.push(`What certainty costs: ${label} ${show(certified, 3)} instead of ${show(without, 3)}.`);
  }
  if (found.caveat) lines.push(`Warning: ${found.caveat}.`);
  return lines;
}

/** The server's refusal of a choice, in the words of the page. */
function refusalWords(message, limits, confidence) {
  const nearest = /nearest point has ([^\n]*)/.exec(message);
  if (nearest) return [`No point keeps ${limitWords(limits)}. The nearest has ${named(nearest[1])}.`];
  const smallest = /smallest at the safest ray are ([^\n]*)/.exec(message);
  if (!smallest) return [message];
  return [
    `The calibration rows cannot certify ${limitWords(limits)} with ${percent(confidence)}.`,
    `The smallest limits that they can: ${named(smallest[1])}.`,
  ];
}

/** Names of columns in a text of the server become labels. */
const named = (text) =>
  COLUMNS.reduce(
    (found, name, c) => found.replaceAll(new RegExp(`(^|, )${escapedName(name)}(?= )`, "g"), `$1${LABELS[c]}`),
    text,
  );
const escapedName = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
