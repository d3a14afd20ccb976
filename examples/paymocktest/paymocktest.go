// Package paymocktest is the helper of docs/go.md: copy its folder into your module.
package paymocktest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

type Object = map[string]any

// A Sandbox is everything that belongs to one API key. Where it takes an order, a payment id will do.
type Sandbox struct {
	t                         testing.TB
	URL, APIKey, DashboardURL string
}

// Open returns an empty sandbox with a frozen clock. If the test fails, it logs what happened, and keeps the sandbox.
func Open(t testing.TB) *Sandbox {
	t.Helper()
	server, key, name := os.Getenv("PAYMOCK_URL"), os.Getenv("PAYMOCK_API_KEY"), os.Getenv("PAYMOCK_SANDBOX")
	if server == "" {
		t.Fatal("run by: paymock exec -- go test -count=1 ./...")
	}
	if name == "" {
		random := make([]byte, 16)
		rand.Read(random)
		name = fmt.Sprintf("test-%x", random)
	}
	if key == "" {
		key = "mk_test_" + name
	}
	mock := &Sandbox{t, server, key, server + "/#key=" + key}
	if !strings.HasPrefix(key, "mk_test_") { // the server has keys: each has KEY.NAME
		mock.APIKey, mock.DashboardURL = key+"."+name, server+"/#sandbox="+name
	}
	mock.Call("POST", "/_mock/reset", nil) // a chosen one may have been used before
	mock.Call("PUT", "/_mock/clock", Object{"speed": 0})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", mock.DashboardURL, mock.Describe())
		} else {
			mock.Call("POST", "/_mock/reset", nil)
		}
	})
	return mock
}

func (mock *Sandbox) Advance(seconds float64) {
	mock.t.Helper()
	mock.Call("POST", "/_mock/clock/advance", Object{"seconds": seconds})
}

// AdvanceTo moves one payment to a status, to the "next" change or to the "end".
func (mock *Sandbox) AdvanceTo(order, to string) Object {
	mock.t.Helper()
	return mock.Call("POST", mock.path(order)+"/advance", Object{"to": to})
}

// Next sets the scenario of the next payment. Options: "order_id", "order_id_prefix", "metadata", "times"; nil times: until a reset.
func (mock *Sandbox) Next(scenario string, options ...Object) {
	mock.t.Helper()
	mock.Call("POST", "/_mock/next", mock.with(options, "scenario", scenario))
}

// Fault adds a fault rule. Options: "operation", "order_id", "order_id_prefix", "skip", "times"; nil times: always.
func (mock *Sandbox) Fault(fault string, options ...Object) Object {
	mock.t.Helper()
	return mock.Call("POST", "/_mock/faults", mock.with(options, "fault", fault))
}

func (mock *Sandbox) Deposit(order, amount string) Object {
	mock.t.Helper()
	return mock.Call("POST", mock.path(order)+"/deposits", Object{"amount": amount})
}

func (mock *Sandbox) Payment(order string) Object {
	mock.t.Helper()
	return mock.Call("GET", mock.path(order), nil)["payment"].(Object)
}

// Payments returns the newest 200.
func (mock *Sandbox) Payments() []any {
	mock.t.Helper()
	return mock.Call("GET", "/_mock/payments?limit=200", nil)["data"].([]any)
}

func (mock *Sandbox) Requests() []any {
	mock.t.Helper()
	return mock.Call("GET", "/_mock/requests?limit=1000", nil)["data"].([]any)
}

// WaitFor waits until the payment, which need not exist yet, has the status; at most so many seconds of real time, up to 60.
func (mock *Sandbox) WaitFor(order, status string, seconds float64) Object {
	mock.t.Helper()
	query := url.Values{"order_id": {order}, "status": {status}, "timeout": {fmt.Sprint(seconds)}}
	reply := mock.Call("GET", "/_mock/wait?"+query.Encode(), nil)
	if reply["reached"] != true {
		mock.t.Fatal(reply["message"])
	}
	return reply["payment"].(Object)
}

func (mock *Sandbox) Describe() string {
	return mock.send("GET", "/_mock/story", nil)
}

// Call sends any request of the control API.
func (mock *Sandbox) Call(method, path string, body Object) (reply Object) {
	mock.t.Helper()
	json.Unmarshal([]byte(mock.send(method, path, body)), &reply)
	return reply
}

func (mock *Sandbox) send(method, path string, body Object) string {
	mock.t.Helper()
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	request, err := http.NewRequest(method, mock.URL+path, bytes.NewReader(content))
	if err != nil {
		mock.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+mock.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		mock.t.Fatal(err)
	}
	defer response.Body.Close()
	reply, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		mock.t.Fatalf("%s %s: %s %s", method, path, response.Status, reply)
	}
	return string(reply)
}

func (mock *Sandbox) path(order string) string {
	return "/_mock/payments/" + url.PathEscape(order)
}

func (mock *Sandbox) with(options []Object, name, value string) Object {
	body := Object{name: value}
	for _, option := range options {
		for name, value := range option {
			body[name] = value
		}
	}
	return body
}
