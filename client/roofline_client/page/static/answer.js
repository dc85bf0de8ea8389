// An answer with its pictures; those that may change are asked for again.
"use strict";

const answer = document.getElementById("answer");
let pictures = {};

function section(title) {
  const made = document.createElement("section");
  const head = document.createElement("h2");
  const place = document.createElement("div");
  const keep = document.createElement("button");
  head.textContent = title;
  keep.textContent = "PNG";
  keep.addEventListener("click", () => keepPicture(place, title));
  head.append(" ", keep);
  place.dataset.title = title;
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", title + "; the tables below have its numbers");
  made.append(head, place);
  document.getElementById("pictures").append(made);
  return place;
}

function drawAll() {
  for (const [title, figure] of Object.entries(pictures)) {
    const places = [...document.querySelectorAll("#pictures [data-title]")];
    draw(places.find((place) => place.dataset.title === title) || section(title), figure, title);
  }
}

if (answer.dataset.pictures) {
  pictures = JSON.parse(answer.dataset.pictures);
  drawAll();
}
if (answer.dataset.events) {
  follow(() => answer.dataset.events, (shown) => {
    answer.innerHTML = shown.answer;  // escaped by the server
    pictures = shown.pictures;
    drawAll();
  });
}
dark.addEventListener("change", drawAll);
