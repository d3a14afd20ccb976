// Retries with a new key: double payments.

import { randomUUID } from "node:crypto";

import { serve } from "./shop.mjs";

serve(() => randomUUID());
