// Reads each reply with the client, openapi-generator's for Go, and prints why it fails, by name.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"example.com/flow/service"
)

func read(name string, reply []byte) error {
	targets := map[string]any{
		"Payment": new(service.Payment), "AttemptList": new(service.AttemptList),
		"ChainList": new(service.ChainList), "AssetList": new(service.AssetList),
		"WebhookEndpointList":    new(service.WebhookEndpointList),
		"CreatedWebhookEndpoint": new(service.CreatedWebhookEndpoint),
	}
	target := targets[name]
	if err := json.Unmarshal(reply, target); err != nil {
		return err
	}
	if payment, ok := target.(*service.Payment); ok && payment.Attempts[0].Instructions.Type == "" {
		return errors.New("no instructions")
	}
	_, err := json.Marshal(target)
	return err
}

func main() {
	var replies [][]json.RawMessage
	text, err := os.ReadFile("replies.json")
	if err == nil {
		err = json.Unmarshal(text, &replies)
	}
	if err != nil {
		panic(err)
	}
	failures := map[string]string{}
	for _, one := range replies {
		var name, schema string
		json.Unmarshal(one[0], &name)
		json.Unmarshal(one[1], &schema)
		if err := read(schema, one[2]); err != nil {
			failures[name] = err.Error()
		}
	}
	text, _ = json.Marshal(failures)
	fmt.Println(string(text))
}
