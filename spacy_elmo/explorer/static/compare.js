// Compare: similarities of the tokens of two texts, for each layer and for a mix of them.

import { make, mapKey, shade, shorten, visible } from "./dom.js";

const DENSE = 12; // tokens from which cells have no numbers
const MANY_CELLS = 900; // from which one map is shown at a time

export function start(view) {
  const { mixture_size, mixes } = view.settings;
  const names = layerNames(mixture_size);
  const layers = view.form.elements.layer;
  names.forEach((name, j) => layers.append(make("option", { value: String(j) }, name)));
  layers.append(make("option", { value: "mix" }, "the mix"));
  const sliders = names.map((name, j) => slider(`s${j}`, `Share of ${j ? name : `the ${name}`} (s)`, { max: 100, value: Math.round(100 / mixture_size) }));
  view.find(".sliders").append(...sliders, slider("gamma", "Length of the sum (γ)", { max: 10, value: 1 }));
  offerMixes(view, mixes);
  view.form.addEventListener("input", (event) => {
    if (event.target.tagName === "TEXTAREA") return;
    if (event.target.name === "mix") chooseMix(view, mixes);
    else if (event.target.type === "range") {
      event.target.value = round(Number(event.target.value));
      view.form.elements.mix.value = "";
    }
    view.keep();
    showSliders(view);
    if (view.products) draw(view);
  });
  showSliders(view);
}

export async function run(view, question) {
  view.find(".result").replaceChildren();
  view.find(".readout").textContent = "Blue is alike, orange opposite. Point at a cell, or move with the arrow keys, to read it.";
  view.products = null;
  const { a, b } = view.fields;
  showSliders(view);
  view.products = await question({ a, b });
  draw(view);
}

export function layerNames(n) {
  return Array.from({ length: n }, (_, j) => (j ? `layer ${j}` : "token layer"));
}

function slider(name, label, { max, value }) {
  const output = make("output", { id: `${name}-value` });
  // Named by id: an output inside of a label would take the label for itself.
  return make("label", { for: name }, `${label} `, output, make("input", { type: "range", id: name, name, min: 0, max, step: "any", value }));
}

function offerMixes(view, mixes) {
  const choice = view.form.elements.mix;
  choice.append(make("option", { value: "" }, "set by hand"));
  mixes.forEach((mix, i) => choice.append(make("option", { value: String(i) }, mix.name)));
  view.find(".mixes").hidden = !mixes.length;
}

function chooseMix(view, mixes) {
  const mix = mixes[Number(view.form.elements.mix.value)];
  if (!mix || view.form.elements.mix.value === "") return;
  mix.shares.forEach((share, j) => {
    const control = view.form.elements[`s${j}`];
    if (control) control.value = round(100 * share);
  });
  const { gamma } = view.form.elements;
  gamma.max = Math.max(10, mix.gamma);
  gamma.value = round(mix.gamma);
}

function round(number) {
  return Math.round(1000 * number) / 1000;
}

// Shares of the layers, which sum to one, and gamma.
function mixOf(view) {
  const { mixture_size } = view.settings;
  const values = Array.from({ length: mixture_size }, (_, j) => Number(view.form.elements[`s${j}`].value));
  const sum = values.reduce((x, y) => x + y, 0);
  return { shares: values.map((value) => (sum ? value / sum : 1 / mixture_size)), gamma: Number(view.form.elements.gamma.value) };
}

function showSliders(view) {
  const { shares, gamma } = mixOf(view);
  shares.forEach((share, j) => (view.find(`#s${j}-value`).textContent = `${Math.round(100 * share)} %`));
  view.find("#gamma-value").textContent = gamma.toFixed(2);
  view.form.elements.gamma.disabled = view.form.elements.measure.value === "cosine"; // which has no length
}

function draw(view) {
  const { words } = view.products;
  const { layer, measure } = view.fields;
  const { mixture_size } = view.settings;
  const result = view.find(".result");
  if (!words[0].length || !words[1].length) return result.replaceChildren(make("p", { class: "hint" }, "Write something into both fields."));
  const { shares, gamma } = mixOf(view);
  const one = (j) => shares.map((_, i) => Number(i === j));
  const maps = layerNames(mixture_size).map((name, j) => ({ key: String(j), name, shares: one(j), gamma: 1 }));
  maps.push({ key: "mix", name: `mix, γ = ${gamma.toFixed(2)}`, shares, gamma });
  const isTooMany = layer === "all" && words[0].length * words[1].length > MANY_CELLS;
  const shown = isTooMany ? maps.slice(-1) : maps.filter((map) => layer === "all" || layer === map.key);
  view.find(".status").textContent = isTooMany ? "Only the mix is drawn: with so many tokens, choose one map at a time." : "";
  result.replaceChildren(...shown.map((map) => heatMap(view, map, similarities(view.products, map, measure), measure)));
}

// All similarities of a mix from the products of the layers.
function similarities({ products, own, words }, { shares, gamma }, measure) {
  const weigh = (get) => shares.reduce((sum, s, j) => sum + shares.reduce((part, t, k) => part + (s && t ? s * t * get(j, k) : 0), 0), 0);
  const norms = own.map((tokens, side) => words[side].map((_, i) => Math.sqrt(Math.max(weigh((j, k) => tokens[j][k][i]), 0))));
  return words[0].map((_, row) => words[1].map((_, column) => {
    const product = weigh((j, k) => products[j][k][row][column]);
    if (measure === "dot") return gamma * gamma * product;
    const length = norms[0][row] * norms[1][column];
    return length ? product / length : 0;
  }));
}

function heatMap(view, map, values, measure) {
  const [rows, columns] = view.products.words;
  const scale = measure === "cosine" ? 1 : Math.max(...values.flat().map(Math.abs)) || 1;
  const cells = [];
  const head = make("tr", {}, make("td"), ...columns.map((word) => make("th", { scope: "col" }, make("span", {}, shorten(word, 16)))));
  const body = rows.map((word, r) => make("tr", {}, make("th", { scope: "row" }, shorten(word, 16)), ...columns.map((other, c) => {
    const cell = make("td", { class: "cell", tabindex: r || c ? -1 : 0 }, format(values[r][c], measure));
    shade(cell, values[r][c] / scale);
    const tell = () => tellCell(view, `${shorten(word)} × ${shorten(other)}`, values[r][c], measure, map.name);
    cell.addEventListener("mouseenter", tell);
    cell.addEventListener("focus", tell);
    cells.push(cell);
    return cell;
  })));
  const isDense = Math.max(columns.length, rows.length) > DENSE;
  const table = make("table", { class: isDense ? "heat dense" : "heat" }, make("thead", {}, head), make("tbody", {}, ...body));
  table.addEventListener("keydown", (event) => moveInGrid(event, cells, columns.length));
  const legend = measure === "cosine" ? "" : ` blue: ${scale.toPrecision(3)}`;
  return make("figure", { "data-map": map.key }, make("figcaption", {}, map.name, make("span", { class: "hint" }, legend)), make("div", { class: "scroll" }, table));
}

function format(value, measure) {
  if (measure === "dot") return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(2);
  return value.toFixed(2).replace(/^-(0\.00)$/, "$1");
}

function tellCell(view, words, value, measure, name) {
  view.find(".readout").textContent = `${visible(words)}: ${measure} ${value.toPrecision(3)} (${name})`;
}

function moveInGrid(event, cells, width) {
  const step = mapKey(event);
  const at = cells.indexOf(event.target);
  if (!step || at < 0) return;
  event.preventDefault();
  const column = (at % width) + step[0];
  const next = column < 0 || column >= width ? null : cells[at + step[0] + step[1] * width];
  if (!next) return;
  cells[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
