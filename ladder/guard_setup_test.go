package ladder

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"nightshift/config"
	"nightshift/provider"
)

// anAnswer asks for an object with a number n.
const anAnswer = `{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`

// guarded is a ladder whose answers must satisfy a schema, "" for none, and hold
// nothing of what is denied.
func guarded(repairs int, schema string, deny []string, names ...string) config.Ladder {
	c := nightly(2, names...)
	c.Output = config.Output{Repairs: repairs, Deny: deny}
	if schema != "" {
		c.Output.SchemaText = []byte(schema)
	}
	return c
}

// said is an answer of the given content.
func said(content string) string { return choices(choiceOf(content, "stop")) }

// cutOff is an answer that its length cut off.
func cutOff(content string) string { return choices(choiceOf(content, "length")) }

func choiceOf(content, finish string) string {
	b, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"message":{"role":"assistant","content":%s},"finish_reason":%q}`, b, finish)
}

func choices(all ...string) string {
	body := `{"choices":[`
	for i, c := range all {
		if i > 0 {
			body += ","
		}
		body += c
	}
	return body + "]}"
}

// says makes a model answer its calls with these bodies, the last for ever.
func (b *bundle) says(name string, bodies ...string) {
	b.callers["p/"+name].reply = func(ctx context.Context, n int, r provider.Request) (provider.Answer, error) {
		ans, err := answers(ctx, n, r)
		ans.Body = json.RawMessage(bodies[min(n, len(bodies)-1)])
		return ans, err
	}
}

// request is the n-th request to a model as its adapter got it.
func (b *bundle) request(name string, n int) provider.Request {
	b.t.Helper()
	all := b.callers["p/"+name].requests
	if n >= len(all) {
		b.t.Fatalf("%d requests to %s", len(all), name)
	}
	return all[n]
}

// messages is a conversation as its JSON.
func messages(t testing.TB, r provider.Request) string {
	t.Helper()
	v, ok := r.Set["messages"]
	if !ok {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func textRung(text string) config.Rung { return config.Rung{Text: text} }

func withContext(m config.Model, tokens int) config.Model {
	m.Context = tokens
	return m
}
