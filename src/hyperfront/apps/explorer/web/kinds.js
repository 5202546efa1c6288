// What the model makes of sample inputs: one way of showing them for each kind.
//
// A kind has `item(k)`, the input as it is, `answer(k, predictions)`, what the model says of it, `whole(predictions)`,
// what it says of all of them together, and a `note` for the title; it may lack any but the note.

const SAMPLES = DATA.samples;
const some = (numbers) =>
  numbers
    .slice(0, 10)
    .map((value) => show(value, 3))
    .join(", ");

const kinds = {
  classes: {
    note: "all classes, the true one in green",

    item(k) {
      const { image, truth } = SAMPLES.items[k];
      return canvas(image, `Image ${k + 1}: ${truth.map((c, h) => SAMPLES.heads[h].classes[c]).join(" and ")}`);
    },

    answer: (k, predictions) =>
      SAMPLES.heads.map(({ name, classes }, h) => {
        const [chances, truth] = [predictions[k][h], SAMPLES.items[k].truth[h]];
        const best = chances.indexOf(Math.max(...chances));
        const words = [
          el("span", { class: "muted" }, `${name} `),
          verdict(best === truth, classes[best]),
          ` ${percent(chances[best])}`,
        ];
        return el("div", { class: "head" }, columnChart(chances, classes, truth), el("span", { class: "says" }, words));
      }),
  },

  people: {
    note: SAMPLES.predicted && `probability of: ${SAMPLES.predicted}`,

    item(k) {
      const { title, fields, group } = SAMPLES.items[k];
      const list = Object.entries(fields).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
      const summary = el(
        "summary",
        {},
        el("strong", {}, title),
        el("span", { class: "muted small" }, SAMPLES.groups[group]),
      );
      return el("details", { class: "person" }, summary, el("dl", {}, list));
    },

    answer(k, predictions) {
      const [chance, truth] = [predictions.probabilities[k], SAMPLES.items[k].truth];
      const words = [
        verdict(chance > 0.5 === truth, percent(chance)),
        el("span", { class: "muted" }, `, truth ${truth ? "yes" : "no"}`),
      ];
      return [meter(chance), el("span", { class: "says" }, words)];
    },

    whole({ groups }) {
      const head = ["", ...SAMPLES.groups, "gap"].map((text) => el("th", { scope: "col" }, text));
      const rows = Object.keys(groups[0]).map((name) => {
        const cells = groups.map((rates, g) => el("td", {}, meter(rates[name], `g${g}`), percent(rates[name])));
        const gap = el("td", { class: "gap" }, percent(Math.abs(groups[0][name] - groups[1][name])));
        return el("tr", {}, el("th", { scope: "row" }, name), cells, gap);
      });
      const caption = el("caption", {}, "Both groups, on all validation rows");
      return el("table", { class: "groups" }, caption, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
    },
  },

  scenes: {
    note: SAMPLES.metres && `depth from 0 m (bright) to ${SAMPLES.metres.toFixed(0)} m (dark)`,

    item(k) {
      const { image, segmentation, depth } = SAMPLES.items[k];
      return el(
        "div",
        { class: "scene" },
        figure(canvas(image, `Image ${k + 1}`), "image"),
        figure(canvas(segmentation, "True classes", classColour), "classes, true"),
        figure(canvas(depth, "True depth", depthColour), "depth, true"),
      );
    },

    answer(k, predictions) {
      const { segmentation, depth } = predictions[k];
      return el(
        "div",
        { class: "scene" },
        figure(canvas(segmentation, "Predicted classes", classColour), "classes, predicted"),
        figure(canvas(depth, "Predicted depth", depthColour), "depth, predicted"),
      );
    },

    whole() {
      const names = SAMPLES.classes.map((name, k) => {
        const patch = el("span", { class: "patch" });
        patch.style.background = `rgb(${classColour(k).join(" ")})`;
        return el("span", {}, patch, name);
      });
      return el("p", { class: "classes small" }, names);
    },
  },

  values: {
    note: "",

    item: (k) =>
      SAMPLES.items[k].inputs.map(({ image, numbers, of }) => {
        if (image) return canvas(image, `Input ${k + 1}`);
        const words = of > numbers.length ? `input, first ${numbers.length} of ${of}` : `input, ${of} numbers`;
        return figure(bars(numbers, { label: `Input ${k + 1}: ${some(numbers)}`, height: 26 }), words);
      }),

    answer: (k, predictions) =>
      predictions[k].map((output, h) => {
        const targets = SAMPLES.items[k].targets.find((target) => target.length === output.length) || null;
        const name = predictions[k].length > 1 ? `output ${h + 1}` : "output";
        const words = output.length === 1 ? `${name} ${show(output[0])}` : name;
        const aim = targets ? el("span", { class: "aim-word" }, " — target") : null;
        return figure(bars(output, { targets, label: `Output: ${some(output)}` }), words, aim);
      }),
  },

  point: {
    note: "this problem takes no input",
    extent: [], // of the coordinates seen so far, so that the scale stands still

    start() {
      for (const corner of dasDennis(M, 1)) {
        const seen = ({ numbers }) => this.see(numbers);
        backend.predict(corner).then(seen, () => {});
      }
    },

    see(numbers) {
      this.extent = [Math.min(...numbers, ...this.extent), Math.max(...numbers, ...this.extent)];
    },

    whole({ numbers, of }) {
      this.see(numbers);
      const which = of > numbers.length ? `the first ${numbers.length} of ${of} coordinates` : `${of} coordinates`;
      const ends = `from ${show(Math.min(...numbers), 3)} to ${show(Math.max(...numbers), 3)}`;
      const chart = bars(numbers, { extent: this.extent, label: `Coordinates: ${some(numbers)}`, height: 60 });
      return figure(chart, `${which}, ${ends}`);
    },
  },
};
