<?php
// Whatever is not open or closed is paid, a failed read, too: free goods.

require __DIR__ . '/shop.php';

serve(fn (?array $payment): string => match ($payment['status'] ?? null) {
    'awaiting_payment', 'payment_detected', 'payment_finalized', 'settlement_pending', 'settlement_submitted' => 'open',
    'expired', 'underpaid_expired', 'overpaid_review', 'manual_review', 'failed' => 'closed',
    default => 'paid',
});
