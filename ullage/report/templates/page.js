// Draws the charts. The first screen needs none of this. Colours are CSS variables, so nothing has
// to be drawn again when the scheme changes or the page is printed.
const options = { actions: false, renderer: "svg", ast: true, hover: false, tooltip: { theme: "page" } };

// Vega is two thirds of a page even when it is packed. The page's policy knows it by its digest.
async function load() {
  const bytes = Uint8Array.from(atob(document.getElementById("library").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
  script.remove();
}

async function draw(plot) {
  if (plot.dataset.state) return;
  plot.dataset.state = "drawing";
  try {
    await vegaEmbed(plot, unpack(document.getElementById(plot.dataset.spec).textContent), options);
    plot.dataset.state = "drawn";
  } catch (error) {
    plot.dataset.state = "failed";
    plot.textContent = "This chart could not be drawn: " + error.message;
  }
}

// Data sets come as names and rows; Vega-Lite wants objects.
function unpack(text) {
  const { spec, data } = JSON.parse(text);
  spec.datasets = {};
  for (const [name, { keys, rows }] of Object.entries(data))
    spec.datasets[name] = rows.map((row) => Object.fromEntries(keys.map((key, i) => [key, row[i]])));
  return spec;
}

function hidden(plot) {
  const details = plot.closest("details");
  return details !== null && !details.open;
}

async function start() {
  try {
    await load();
  } catch (error) {
    for (const plot of document.querySelectorAll(".plot"))
      plot.textContent = "This browser cannot draw charts: " + error.message;
    document.documentElement.dataset.charts = "failed";
    return;
  }
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
