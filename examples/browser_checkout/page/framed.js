// framed.js: buys, and shows the checkout of the service in a frame that is as high as its page.
const [buy, said, frame] = ["#buy", "[role=status]", "iframe"].map((one) => document.querySelector(one));
const order_id = `order-${crypto.randomUUID()}`;

buy.addEventListener("click", async () => {
  buy.disabled = true;
  const reply = await fetch("/buy", { method: "POST", body: new URLSearchParams({ order_id }) });
  const { checkout, error = "" } = await reply.json();
  buy.disabled = reply.ok;
  said.textContent = error;
  if (!reply.ok) return;
  frame.src = checkout;
  frame.hidden = false;
});

addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow || data.type !== "payment.status") return;
  frame.height = data.height;
  if (data.final) said.textContent = data.view === "complete" ? "Thank you" : "Something went wrong: look below";
});
