// The dialog that creates a payment.

import { order, randomKey, request, root } from "./api.js";
import { by } from "./dom.js";
import { problemAt, showProblems } from "./forms.js";
import { raw } from "./format.js";

export function creationDialog() {
  const dialog = by("new-dialog"), form = by("new-form");
  const refuse = (error) => showProblems(form, by("new-problem"), error);
  let retry;
  by("new").addEventListener("click", () => {
    retry = randomKey(); // pressed twice, it makes one payment
    by("order").value = `order-${Math.floor(Math.random() * 9000) + 1000}`;
    refuse();
    dialog.showModal();
  });
  by("new-cancel").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form);
    const [chain, asset] = data.get("asset").split(" ");
    const received = raw(data.get("amount"), Number(by("asset").selectedOptions[0].dataset.decimals));
    if (!received) return refuse(problemAt("receive.amount", "must be a positive number, with no more decimals than the asset has"));
    try {
      const payment = await request("POST", "/v1/payments", order(data.get("order"), chain, asset, received, data.get("address")),
        { "Idempotency-Key": retry, "X-Mock-Scenario": data.get("scenario") });
      location.assign(`${root}/payments/${payment.id}#main`);
    } catch (error) {
      if (error.status) retry = randomKey();
      refuse(error);
    }
  });
}
