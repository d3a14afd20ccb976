// The shop of docs/go.md.
package shop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type Shop struct {
	url, apiKey string
	payments    map[string]string // the payment of each order
	Status      map[string]string
	Delivered   map[string]int
}

func NewShop(url, apiKey string) *Shop {
	return &Shop{url, apiKey, map[string]string{}, map[string]string{}, map[string]int{}}
}

// Order creates the payment of an order. After an error, call it again.
func (shop *Shop) Order(orderID string) (err error) {
	payment, err := shop.send("POST", "/v1/payments", "payment-of-"+orderID, fmt.Sprintf(`{
		"order_id": %q,
		"receive": {"chain": "bsc", "asset": "USDT", "amount": "1000000000000000000",
			"address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
		"settlement": {"mode": "same_chain_merchant_payout"},
		"pay_with": [{"chain": "bsc", "asset": "USDT"}]
	}`, orderID))
	if err == nil {
		shop.payments[orderID] = payment.ID
	}
	return err
}

// Poll reads the payment of an order, and delivers the goods once it is completed.
func (shop *Shop) Poll(orderID string) error {
	payment, err := shop.send("GET", "/v1/payments/"+shop.payments[orderID], "", "")
	if err == nil && payment.Status == "completed" && shop.Delivered[orderID] == 0 {
		shop.Delivered[orderID]++
	}
	if err == nil {
		shop.Status[orderID] = payment.Status
	}
	return err
}

func (shop *Shop) send(method, path, key, body string) (payment struct{ ID, Status string }, err error) {
	request, err := http.NewRequest(method, shop.url+path, strings.NewReader(body))
	if err != nil {
		return payment, err
	}
	request.Header.Set("Authorization", "Bearer "+shop.apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return payment, err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return payment, fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&payment)
	return payment, err
}
