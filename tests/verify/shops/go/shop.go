// A shop over HTTP: `go run shop.go` polls again after a failure; `go run shop.go bad` drops the order: lost sales.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	timeout = 300 * time.Millisecond
	pause   = 50 * time.Millisecond
	body    = `{
  "order_id": %q,
  "receive": {"chain": "bsc", "asset": "USDT", "amount": "25000000000000000000",
              "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
  "settlement": {"mode": "same_chain_merchant_payout"},
  "pay_with": [{"chain": "bsc", "asset": "USDT"}]
}`
)

var closed = map[string]bool{
	"completed": true, "expired": true, "underpaid_expired": true,
	"overpaid_review": true, "manual_review": true, "failed": true,
}

type payment struct {
	ID, Status string
}

type shop struct {
	url, apiKey           string
	dropsAfterFailedPoll  bool
	client                http.Client
	mutex                 sync.Mutex
	deliveries, following map[string]int
}

// send returns the payment in the reply, and how long the service asks to wait.
func (s *shop) send(method, path, body, key string) (payment, time.Duration, error) {
	var result payment
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return result, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+s.apiKey)
	if method == "POST" {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
	}
	reply, err := s.client.Do(request)
	if err != nil {
		return result, 0, err
	}
	defer reply.Body.Close()
	if reply.StatusCode >= 400 {
		seconds, _ := strconv.Atoi(reply.Header.Get("Retry-After"))
		return result, time.Duration(seconds) * time.Second, fmt.Errorf("status %d", reply.StatusCode)
	}
	return result, 0, json.NewDecoder(reply.Body).Decode(&result)
}

// order creates the payment of an order, and follows it. A customer who orders again gets the same payment.
func (s *shop) order(id string) error {
	created, _, err := s.send("POST", "/v1/payments", fmt.Sprintf(body, id), "payment-of-"+id)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.following[id]++; s.following[id] == 1 {
		go s.follow(id, created.ID)
	}
	return nil
}

func (s *shop) follow(orderID, paymentID string) {
	for {
		time.Sleep(pause)
		current, wait, err := s.send("GET", "/v1/payments/"+paymentID, "", "")
		if err != nil {
			if s.dropsAfterFailedPoll {
				return
			}
			time.Sleep(wait)
			continue
		}
		if current.Status == "completed" {
			s.mutex.Lock()
			s.deliveries[orderID]++
			s.mutex.Unlock()
		}
		if closed[current.Status] {
			return
		}
	}
}

func main() {
	s := &shop{
		url:                  os.Getenv("PAYMOCK_URL"),
		apiKey:               os.Getenv("PAYMOCK_API_KEY"),
		dropsAfterFailedPoll: len(os.Args) > 1 && os.Args[1] == "bad",
		client:               http.Client{Timeout: timeout},
		deliveries:           map[string]int{},
		following:            map[string]int{},
	}
	http.HandleFunc("/orders/", func(w http.ResponseWriter, r *http.Request) {
		if err := s.order(strings.TrimPrefix(r.URL.Path, "/orders/")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	http.HandleFunc("/deliveries/", func(w http.ResponseWriter, r *http.Request) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		fmt.Fprint(w, s.deliveries[strings.TrimPrefix(r.URL.Path, "/deliveries/")])
	})
	http.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
	os.Exit(1)
}
