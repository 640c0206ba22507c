"use strict";
// Parts of the page come as events; their HTML is made and escaped by the run, and no script in it may run (policy of the page).
const root = document.documentElement;
const word = document.getElementById("word");
const show = (state, text) => {
  root.dataset.state = state;
  word.textContent = text;
  document.getElementById("lost").hidden = state !== "lost";
};
const source = new EventSource("events");
for (const part of ["head", "warnings", "answer", "log"]) {
  source.addEventListener(part, event => {
    show("live", "live");
    document.getElementById(part).innerHTML = JSON.parse(event.data);
  });
}
source.addEventListener("end", () => {
  source.close();
  show("ended", "ended");
});
source.onerror = () => {
  if (root.dataset.state !== "ended") show("lost", "no connection");
};
