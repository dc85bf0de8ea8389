// One job: its verdict as the server words it, and pictures as the server computes them.
"use strict";

const job = document.getElementById("verdict").dataset.job;
const dark = matchMedia("(prefers-color-scheme: dark)");
let pictures = {};

function look(layout) {
  const ink = getComputedStyle(document.body).color;
  const grid = getComputedStyle(document.querySelector("header")).borderBottomColor;
  const made = {
    ...layout, autosize: true, margin: { l: 60, r: 15, t: 40, b: 45 }, uirevision: job,
    font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  };
  for (const axis of ["xaxis", "yaxis"]) {
    made[axis] = { ...layout[axis], gridcolor: grid, zerolinecolor: grid, automargin: true };
  }
  return made;
}

function draw() {
  const options = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  for (const [name, figure] of Object.entries(pictures)) {
    Plotly.react(name, figure.data, look(figure.layout), options);
  }
}

follow("/events/job?job=" + encodeURIComponent(job), (shown) => {
  document.getElementById("verdict").innerHTML = shown.verdict;  // escaped by the server
  document.getElementById("state").textContent = shown.state;
  pictures = shown.pictures;
  draw();
});
dark.addEventListener("change", draw);
document.getElementById("copy").addEventListener("click", () => {
  navigator.clipboard.writeText(document.getElementById("command").textContent);
});
