// Draws the pictures that the server computed, in the colours of the page, and keeps them as files.
"use strict";

const OPTIONS = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "toImage"] };
const dark = matchMedia("(prefers-color-scheme: dark)");

function look(layout, revision) {
  const style = getComputedStyle(document.body);
  const ink = style.color;
  const grid = style.getPropertyValue("--grid-now") || getComputedStyle(document.querySelector("header")).borderBottomColor;
  const made = {
    showlegend: true, ...layout, autosize: true, margin: { l: 60, r: 15, t: 40, b: 45 }, uirevision: revision,
    font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { align: "left" },
  };
  for (const axis of ["xaxis", "yaxis"]) {
    made[axis] = { ...layout[axis], gridcolor: grid, zerolinecolor: grid, automargin: true };
  }
  return made;
}

// Does it once so many frames more are on the screen.
function afterFrames(count, task) {
  requestAnimationFrame(() => { if (count > 1) afterFrames(count - 1, task); else setTimeout(task); });
}

function draw(place, figure, revision) {
  return Plotly.react(place, figure.data, look(figure.layout, revision), OPTIONS);
}

function keepPicture(place, name) {
  Plotly.downloadImage(place, { format: "png", filename: name, width: 1400, height: 700, scale: 2 });
}
