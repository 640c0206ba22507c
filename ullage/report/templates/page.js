// Draws the charts. The first screen needs none of this. Colours are CSS variables, so nothing has
// to be drawn again when the scheme changes or the page is printed.
const options = { actions: false, renderer: "svg", ast: true, hover: false, tooltip: { theme: "page" } };

async function draw(plot) {
  if (plot.dataset.state) return;
  plot.dataset.state = "drawing";
  const spec = JSON.parse(document.getElementById(plot.dataset.spec).textContent);
  try {
    await vegaEmbed(plot, spec, options);
    plot.dataset.state = "drawn";
  } catch (error) {
    plot.dataset.state = "failed";
    plot.textContent = "This chart could not be drawn: " + error.message;
  }
}

function hidden(plot) {
  const details = plot.closest("details");
  return details !== null && !details.open;
}

async function start() {
  for (const plot of document.querySelectorAll(".plot")) {
    const details = plot.closest("details");
    if (details) details.addEventListener("toggle", () => { if (details.open) draw(plot); });
    if (!hidden(plot)) {
      await draw(plot);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  document.documentElement.dataset.charts = "done";
}

start();
