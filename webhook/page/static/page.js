// Keys, and the word that says whether the page follows the cluster. All else is HTML and htmx.
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
