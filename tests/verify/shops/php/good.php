<?php
// Without a reply, the order stays open.

require __DIR__ . '/shop.php';

serve(fn (?array $payment): string => match ($payment['status'] ?? null) {
    'completed' => 'paid',
    'expired', 'underpaid_expired', 'overpaid_review', 'manual_review', 'failed' => 'closed',
    default => 'open',
});
