// Follows the events of the server, says when it is away, and goes on by itself when it is back.
"use strict";

function follow(address, show) {
  const link = document.getElementById("link");
  const source = new EventSource(address);
  source.onopen = () => { link.textContent = ""; };
  source.onerror = () => {
    link.textContent = "the server is away; trying again";
    if (source.readyState === EventSource.CLOSED) {  // the browser has given up, as after a 401
      setTimeout(() => location.reload(), 5000);
    }
  };
  source.onmessage = (event) => {
    const shown = JSON.parse(event.data);
    link.textContent = shown.error || "";
    if (!shown.error) {
      show(shown);
    }
  };
}
