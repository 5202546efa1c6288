// Rays: points of the simplex.

const normalized = (ray) => {
  const kept = ray.map((value) => Math.max(0, value));
  const total = kept.reduce((sum, value) => sum + value, 0);
  return total > 0 ? kept.map((value) => value / total) : kept.map(() => 1 / kept.length);
};

const equalRay = () => range(M).map(() => 1 / M);

/** The ray with entry j set to value, and the others as they are to each other. */
function withEntry(ray, j, value) {
  const entry = clamp(value, 0, 1);
  const rest = 1 - ray[j];
  return ray.map((old, k) => {
    if (k === j) return entry;
    return rest > 1e-9 ? (old * (1 - entry)) / rest : (1 - entry) / (ray.length - 1);
  });
}

/** All rays whose entries are multiples of 1 / parts, the first entry descending. */
function dasDennis(m, parts) {
  const found = [];
  const grow = (head, left) => {
    if (head.length === m - 1) found.push([...head, left].map((count) => count / parts));
    else for (let count = left; count >= 0; count--) grow([...head, count], left - count);
  };
  grow([], parts);
  return found;
}

// A triangle with its corners at the top (first objective), bottom left and bottom right, one unit wide.
const HEIGHT = Math.sqrt(3) / 2;
const CORNERS = [
  [0.5, 0],
  [0, HEIGHT],
  [1, HEIGHT],
];

const toTriangle = (ray) => [0, 1].map((axis) => ray.reduce((sum, value, j) => sum + value * CORNERS[j][axis], 0));

/** The ray at a point of the plane; points outside the triangle are taken to its edge. */
function fromTriangle(x, y) {
  const first = 1 - y / HEIGHT;
  const third = x - first / 2;
  return normalized([first, 1 - first - third, third]);
}

const near = (a, b, within = 1e-6) => a.every((value, j) => Math.abs(value - b[j]) < within);

const FAVORS = DATA.convention !== "direction"; // whether a larger entry asks for a smaller loss

/** What a ray asks for: "mostly log loss, a little gap". */
function rayWords(ray) {
  const shares = FAVORS ? normalized(ray) : normalized(ray.map((value) => 1 / Math.max(value, 1e-6)));
  if (shares.every((share) => Math.abs(share - 1 / M) < 0.2 / M)) return M === 2 ? "both equally" : "all equally";
  const amount = (share) => (share >= 0.98 ? "only" : share >= 0.5 ? "mostly" : share >= 0.2 ? "some" : "a little");
  return range(M)
    .filter((j) => shares[j] >= 0.02)
    .sort((a, b) => shares[b] - shares[a])
    .map((j) => `${amount(shares[j])} ${SHORT[j]}`)
    .join(", ");
}

const rayText = (ray, digits = 2) =>
  range(M)
    .map((j) => `${LABELS[j]} ${ray[j].toFixed(digits)}`)
    .join(", ");

/** A ray in as few digits as tell it apart, such as 0.3125,0.6875. */
const rayCode = (ray) => ray.map((value) => String(Number(value.toFixed(6)))).join(",");

function parseRay(text) {
  const numbers = (text || "").split(",").map(Number);
  const fits = numbers.length === M && numbers.every((value) => Number.isFinite(value) && value >= 0);
  return fits && numbers.some((value) => value > 0) ? normalized(numbers) : null;
}
