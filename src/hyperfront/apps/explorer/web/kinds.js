// What the model makes of sample inputs: one way of showing them for each kind.
//
// A kind has `item(k)`, the input as it is, `answer(k, predictions)`, what the model says of it, `whole(predictions)`,
// what it says of all of them together, and a `note` for the title; it may lack any but the note.

/** An input as an image, a text, or numbers. */
function shownInput({ image, text, numbers, of }, label) {
  if (image) return canvas(image, label);
  if (text !== undefined) return el("blockquote", { class: "text", title: label }, text);
  const words = of > numbers.length ? `input, first ${numbers.length} of ${of}` : `input, ${of} numbers`;
  return figure(bars(numbers, { label: `${label}: ${some(numbers)}`, height: 26 }), words);
}

const kinds = {
  classes: {
    note: "all classes, the true one in green",

    item(k) {
      const { input, truth } = SAMPLES.items[k];
      return shownInput(input, `Input ${k + 1}: ${truth.map((c, h) => SAMPLES.heads[h].classes[c]).join(" and ")}`);
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

  table,

  scenes: {
    note: SAMPLES.meters && `depth from 0 m (bright) to ${SAMPLES.meters.toFixed(0)} m (dark)`,

    item(k) {
      const { image, segmentation, depth } = SAMPLES.items[k];
      return el(
        "div",
        { class: "scene" },
        figure(canvas(image, `Image ${k + 1}`), "image"),
        figure(canvas(segmentation, "True classes", classColor), "classes, true"),
        figure(canvas(depth, "True depth", depthColor), "depth, true"),
      );
    },

    answer(k, predictions) {
      const { segmentation, depth } = predictions[k];
      return el(
        "div",
        { class: "scene" },
        figure(canvas(segmentation, "Predicted classes", classColor), "classes, predicted"),
        figure(canvas(depth, "Predicted depth", depthColor), "depth, predicted"),
      );
    },

    whole() {
      const names = SAMPLES.classes.map((name, k) => {
        const patch = el("span", { class: "patch" });
        patch.style.background = `rgb(${classColor(k).join(" ")})`;
        return el("span", {}, patch, name);
      });
      return el("p", { class: "classes small" }, names);
    },
  },

  values: {
    note: "",

    item: (k) => SAMPLES.items[k].inputs.map((input) => shownInput(input, `Input ${k + 1}`)),

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
