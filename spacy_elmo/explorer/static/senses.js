// Senses: the uses of a word on a map, in groups; each has a colour, a shape and an exemplar.

import { emptiness, hasCorpus } from "./corpus.js";
import { COLOURS, keywordInContext, make, makeSvg, rove } from "./dom.js";

const WEAK = 0.25; // a silhouette below which groups overlap
const CAUTION = "A group is a kind of context, often of syntax, not a sense of a dictionary: read its uses.";
const EDGE = 24;
// Paths around 0, 0, so that groups differ by more than their colour.
const SHAPES = ["M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M-5,-5h10v10h-10z", "M0,-6L6,5H-6z", "M0,-7L6,0L0,7L-6,0z", "M0,6L6,-5H-6z", "M-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "M-6,-3h12v6h-12z"];

export async function run(view, question) {
  const result = view.find(".result");
  result.replaceChildren();
  if (!hasCorpus(view)) return;
  const { word, n } = view.fields;
  if (!word.trim()) return result.replaceChildren(make("p", { class: "hint" }, "Write a word."));
  const found = await question({ word, n_senses: n ? Number(n) : null });
  if (!found.uses.length) return result.replaceChildren(...suggest(view, word.trim(), found));
  const readout = make("p", { class: "readout", "aria-live": "polite" }, "Point at a use, or move with the arrow keys, to read its sentence.");
  result.replaceChildren(
    make("p", { class: "facts" }, describe(found)),
    ...(found.sizes.length > 1 ? [make("p", { class: "hint" }, CAUTION)] : []),
    readout, drawMap(found, readout, result.clientWidth || 640), nameCommand(word.trim(), n), ...listGroups(found));
}

// How to save the map, as a line for a shell.
function nameCommand(word, n) {
  const quoted = /^[\p{L}\p{N}]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  const groups = n ? ` --n-senses ${n}` : "";
  return make("p", { class: "hint" }, "To save such a map: ",
    make("code", {}, `python -m spacy elmo senses INDEX ${quoted}${groups} --picture map.svg`), ", with an index of ",
    make("code", {}, "elmo index"), ".");
}

// Instead of a map of too few uses: words that have more.
function suggest(view, word, { n_uses, n_wanted, suggested }) {
  if (!view.settings.index.n_tokens) return [make("p", { class: "hint" }, emptiness(view))];
  const count = n_uses ? `only ${n_uses} ${n_uses === 1 ? "use" : "uses"}` : "no use";
  const told = make("p", { class: "hint" }, `The index has ${count} of “${word}”, and a map needs ${n_wanted}.`);
  const buttons = suggested.map((other) => {
    const button = make("button", { type: "button" }, other);
    button.addEventListener("click", () => {
      view.form.elements.word.value = other;
      view.form.requestSubmit();
    });
    return button;
  });
  return buttons.length ? [told, make("p", { class: "row" }, "Words with more: ", ...buttons)] : [told];
}

function describe({ n_uses, uses, sizes, silhouette }) {
  const some = n_uses > uses.length ? `${uses.length} of ${n_uses.toLocaleString("en")}` : uses.length;
  const groups = `${some} uses in ${sizes.length} ${sizes.length === 1 ? "group" : "groups"}`;
  if (silhouette === null) return groups;
  const weak = silhouette < WEAK ? ": they overlap" : "";
  return `${groups}; separation (silhouette) ${silhouette.toFixed(2)}, where 0 is none and 1 is full${weak}`;
}

function symbol(group, isExemplar) {
  return { d: SHAPES[group % SHAPES.length], fill: COLOURS[group % COLOURS.length], class: isExemplar ? "point exemplar" : "point" };
}

function drawMap(found, readout, width) {
  const height = Math.max(260, Math.min(0.66 * width, 460));
  const place = scale(found.points, width, height);
  const order = found.uses.map((_, i) => i).sort((i, j) => found.labels[i] - found.labels[j] || found.points[i][0] - found.points[j][0]);
  const marks = order.map((i) => {
    const isExemplar = found.exemplars.includes(i);
    const [x, y] = place(found.points[i]);
    const size = isExemplar ? 2 : 1;
    const use = found.uses[i];
    const mark = makeSvg("path", {
      ...symbol(found.labels[i], isExemplar), transform: `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${size})`,
      tabindex: -1, role: "img", "data-use": i,
      "aria-label": `Group ${found.labels[i] + 1}: ${use.words.slice(Math.max(0, use.position - 8), use.position + 9).join(" ")}`.slice(0, 300),
    });
    const tell = () => readout.replaceChildren(`Group ${found.labels[i] + 1}: `, ...keywordInContext(use));
    mark.addEventListener("mouseenter", tell);
    mark.addEventListener("focus", tell);
    return mark;
  });
  rove(marks);
  const drawn = marks.filter((mark) => !mark.classList.contains("exemplar"));
  const onTop = marks.filter((mark) => mark.classList.contains("exemplar"));
  return makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, class: "map", role: "group", "aria-label": "Map of the uses; neighbors are similar" }, ...drawn, ...onTop);
}

function scale(points, width, height) {
  const bounds = [0, 1].map((axis) => points.map((point) => point[axis])).map((values) => [Math.min(...values), Math.max(...values)]);
  const along = (value, [low, high], size) => EDGE + ((size - 2 * EDGE) * (high > low ? (value - low) / (high - low) : 0.5));
  return ([x, y]) => [along(x, bounds[0], width), height - along(y, bounds[1], height)];
}

function listGroups(found) {
  const items = found.exemplars.map((place, group) => make("li", {},
    makeSvg("svg", { viewBox: "-8 -8 16 16", class: "key", "aria-hidden": "true" }, makeSvg("path", symbol(group, false))),
    make("span", { class: "size" }, `Group ${group + 1}, ${found.sizes[group]} ${found.sizes[group] === 1 ? "use" : "uses"}: `),
    make("span", { class: "kwic" }, ...keywordInContext(found.uses[place]))));
  return [make("h3", {}, "A typical use of each group"), make("ol", { class: "groups" }, ...items)];
}
