// server.ts: the shop as it runs. Its worker polls all the time.
import { createServer } from "node:http";
import { Shop } from "./shop.js";

const { PAYMOCK_URL = "http://127.0.0.1:8402", PAYMOCK_API_KEY = "mk_test_demo" } = process.env;
const { PORT = "8000", POLL_MS = "2000", TIMEOUT_MS = "10000" } = process.env;
const PRICE = 25n * 10n ** 18n;
const shop = new Shop(PAYMOCK_URL, PAYMOCK_API_KEY, Number(TIMEOUT_MS));
setInterval(() => shop.poll(), Number(POLL_MS));

async function answer(method = "", name = "", id = ""): Promise<[status: number, text: string]> {
  if (!id) return name === "ready" ? [200, "ready"] : [404, "not found"];
  switch (`${method} ${name}`) {
    case "POST orders":
      return [201, (await shop.order(id, PRICE)).id];
    case "GET deliveries":
      return [200, `${shop.deliveries(id)}`];
    default:
      return [404, "not found"];
  }
}

createServer(async ({ method, url }, reply) => {
  const [, name, id] = url!.split("/");
  const [status, text] = await answer(method, name, id).catch((problem): [number, string] => [502, `${problem}`]);
  reply.writeHead(status).end(text);
}).listen(Number(PORT), "127.0.0.1");
