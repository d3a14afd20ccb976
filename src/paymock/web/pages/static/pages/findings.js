// The pages of the findings: all of them, and one.

import { by } from "./dom.js";
import { fragment, showParts } from "./fragment.js";
import { start } from "./shell.js";
import { move } from "./timeline.js";

start({
  async load() {
    const place = by("picture");
    showParts(await fragment(location.pathname.slice(1) + (place ? `?width=${place.clientWidth}` : "")));
    const drawn = place?.querySelector("svg");
    if (drawn) move(drawn, Number(drawn.dataset.age));
  },
});
