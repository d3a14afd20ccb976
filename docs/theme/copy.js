// A button on each code block that copies its text. Browsers without a clipboard get no buttons.
const SHOWN_MS = 1500;

function button(block) {
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "copy";
  copy.textContent = "Copy";
  copy.setAttribute("aria-live", "polite");
  copy.addEventListener("click", async () => {
    const copied = navigator.clipboard.writeText(block.querySelector("code").textContent);
    copy.textContent = await copied.then(() => "Copied", () => "Not copied");
    setTimeout(() => { copy.textContent = "Copy"; }, SHOWN_MS);
  });
  return copy;
}

if (navigator.clipboard) {
  for (const block of document.querySelectorAll(".code")) block.prepend(button(block));
}
