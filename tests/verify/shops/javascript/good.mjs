// The key belongs to the order.

import { serve } from "./shop.mjs";

serve((orderId) => `payment-of-${orderId}`);
