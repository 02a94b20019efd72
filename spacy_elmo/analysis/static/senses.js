"use strict";
const points = Array.from(document.querySelectorAll(".point"));
const shown = document.getElementById("shown");
function show(point) {
  for (const other of points) { other.classList.toggle("shown", other === point); }
  const use = document.getElementById("use-" + point.dataset.use);
  shown.replaceChildren(...Array.from(use.childNodes, (node) => node.cloneNode(true)));
}
const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
points.forEach((point, i) => {
  point.addEventListener("mouseenter", () => show(point));
  point.addEventListener("click", () => show(point));
  point.addEventListener("focus", () => show(point));
  point.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) { return; }
    event.preventDefault();
    const next = points[(i + steps[event.key] + points.length) % points.length];
    point.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
});
