// Keys, the map's line of numbers, and the word that says whether the page follows the cluster. All else is HTML and htmx.
"use strict";

const live = () => document.getElementById("live");

function show(text, lost) {
  const place = live();
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("lost", lost);
}

document.addEventListener("htmx:sseOpen", () => show("live", false));
document.addEventListener("htmx:sseError", () => show("not connected, trying again", true));
document.addEventListener("htmx:responseError", (event) => show(`error ${event.detail.xhr.status}`, true));
document.addEventListener("htmx:sendError", () => show("not connected, trying again", true));
document.addEventListener("htmx:afterOnLoad", () => show("live", false));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
    return;
  }
  const view = document.querySelectorAll("header nav a")[Number(event.key) - 1];
  if (view) view.click();
});

// The map: a tile's label holds its numbers. One tile is a tab stop; arrow keys go from there to its neighbours.
function tell(about) {
  const tile = about?.closest?.("a.tile");
  const place = document.getElementById("tile");
  if (tile && place) place.textContent = tile.getAttribute("aria-label");
  const gang = about?.closest?.("[data-gang]")?.dataset.gang;
  for (const path of document.querySelectorAll("path.gang")) {
    path.classList.toggle("dim", gang !== undefined && !path.classList.contains(`c${gang}`));
  }
}
document.addEventListener("pointerover", (event) => tell(event.target));
document.addEventListener("focusin", (event) => tell(event.target));
// What was read again has neither: tell the numbers of now.
document.addEventListener("htmx:afterSettle", () => tell(document.querySelector("a.tile:hover, [data-gang]:hover") ?? document.activeElement));

function neighbour(tile, key) {
  const here = tile.getBoundingClientRect();
  const across = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  let best = null;
  let least = Infinity;
  for (const other of document.querySelectorAll("a.tile")) {
    const there = other.getBoundingClientRect();
    const x = there.x - here.x;
    const y = there.y - here.y;
    const ahead = sign * (across ? x : y);
    const far = ahead + 4 * Math.abs(across ? y : x); // straight on before aside
    if (ahead > 1 && far < least) [best, least] = [other, far];
  }
  return best;
}
document.addEventListener("keydown", (event) => {
  const tile = event.target.closest?.("a.tile");
  if (!tile || !event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = neighbour(tile, event.key);
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
