// The pages of the findings: all of them, and one.

import { root } from "./api.js";
import { by } from "./dom.js";
import { showFragment } from "./fragment.js";
import { attempt, start } from "./shell.js";
import { move } from "./timeline.js";

const place = by("picture");
let width;

async function load() {
  width = place?.clientWidth;
  await showFragment((location.origin + location.pathname).slice(root.length + 1) + (place ? `?width=${width}` : ""));
  for (const drawn of place?.querySelectorAll("svg[width]") ?? []) move(drawn, Number(drawn.dataset.age));
}

start({ load });
if (place) new ResizeObserver(() => place.clientWidth && place.clientWidth !== width && attempt(load)).observe(place);
