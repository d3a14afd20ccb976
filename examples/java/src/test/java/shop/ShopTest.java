package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static paymock.junit.Options.with;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import paymock.junit.PaymockExtension;
import paymock.junit.Sandbox;

@ExtendWith(PaymockExtension.class)
class ShopTest {
    Shop shop;

    @BeforeEach
    void openShop(Sandbox mock) {
        shop = new Shop(mock.url(), mock.apiKey(), Duration.ofSeconds(2));
    }

    @Test
    void goodsAreDeliveredOnceWhenThePaymentIsCompleted(Sandbox mock) throws Exception {
        shop.order("1001");
        mock.advanceTo("1001", "settlement_submitted");
        assertTrue(shop.poll("1001"));
        assertEquals(0, shop.deliveries("1001"));

        mock.advanceTo("1001", "completed");
        assertFalse(shop.poll("1001"));
        assertFalse(shop.poll("1001"));
        assertEquals(1, shop.deliveries("1001"));
    }

    @Test
    void halfAPaymentDeliversNothing(Sandbox mock) throws Exception {
        mock.next("underpaid_expired");
        shop.order("1001");
        mock.advanceTo("1001", "end");
        assertFalse(shop.poll("1001"));
        assertEquals("underpaid_expired", shop.status("1001"));
        assertEquals(0, shop.deliveries("1001"));
    }

    @Test
    void aLatePaymentIsForAPersonToDecide(Sandbox mock) throws Exception {
        mock.next("late_payment");
        shop.order("1001");
        mock.advanceTo("1001", "expired");
        assertTrue(shop.poll("1001")); // the customer may still pay

        mock.advanceTo("1001", "manual_review");
        assertFalse(shop.poll("1001"));
        assertEquals(0, shop.deliveries("1001"));
    }

    @Test
    void anOrderWhoseReplyWasLostIsPaidAndDeliveredOnce(Sandbox mock) throws Exception {
        mock.fault("drop", with().operation("createPayment"));
        assertThrows(IOException.class, () -> shop.order("1001"));
        shop.order("1001"); // the customer orders again
        assertEquals(1, mock.payments().size());

        mock.advanceTo("1001", "completed");
        shop.poll("1001");
        assertEquals(1, shop.deliveries("1001"));
    }

    @Test
    void halfAReplyLeavesTheOrderOpen(Sandbox mock) throws Exception {
        mock.fault("truncate=100", with().operation("getPayment").times(2));
        shop.order("1001");
        mock.advance(Duration.ofSeconds(45));
        assertTrue(shop.poll("1001"));
        assertTrue(shop.poll("1001"));
        assertFalse(shop.poll("1001"));
        assertEquals(1, shop.deliveries("1001"));
    }

    @Test
    void aWorkerReadsEveryStatus(Sandbox mock) throws Exception {
        shop.order("1001");
        shop.follow("1001", 10);
        mock.advanceTo("1001", "completed", with().untilObserved());
        var shown = mock.requests().stream().map(request -> request.get("shown")).toList();
        assertTrue(shown.containsAll(List.of("payment_detected", "settlement_submitted", "completed")));
    }
}
