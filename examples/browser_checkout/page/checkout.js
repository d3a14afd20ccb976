// checkout.js: buys, and shows the checkout as it changes.
const element = (id) => document.getElementById(id);
const order_id = `order-${crypto.randomUUID()}`; // another click is the same order, and so the same payment
let secondsLeft = 0;
let speed = 0; // of the sandbox's time: tests let it stand still

element("buy").addEventListener("click", async () => {
  element("buy").disabled = true;
  const reply = await fetch("/buy", { method: "POST", body: new URLSearchParams({ order_id }) });
  if (!reply.ok) {
    element("buy").disabled = false;
    element("buy").textContent = "Try again";
    return;
  }
  const { checkout } = await reply.json();
  element("checkout").hidden = false;
  const countdown = setInterval(tick, 1000);
  for (let payment; !payment?.final; await pause(1000)) {
    payment = await (await fetch(`${checkout}.json`)).json();
    show(payment);
  }
  clearInterval(countdown);
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function show(payment) {
  ({ seconds_left: secondsLeft, speed } = payment);
  element("headline").textContent = payment.headline;
  element("explanation").textContent = payment.explanation;
  element("pay").hidden = payment.view !== "pay";
  element("due").textContent = `${payment.due.tokens} ${payment.asset.symbol}`;
  element("chain").textContent = payment.chain.name;
  element("address").textContent = payment.invoice_address;
  element("received").textContent = `${payment.received.tokens} ${payment.asset.symbol}`;
  element("left").textContent = Math.ceil(secondsLeft);
}

function tick() {
  secondsLeft = Math.max(0, secondsLeft - speed);
  element("left").textContent = Math.ceil(secondsLeft);
}
